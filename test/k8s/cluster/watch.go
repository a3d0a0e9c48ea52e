package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Watch lists the objects of a path and follows their changes: it calls each with every object, and whether it was
// deleted. It returns nil when ctx is done.
func (a *API) Watch(ctx context.Context, path string, each func(object json.RawMessage, gone bool) error) error {
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []json.RawMessage
	}
	if err := a.Do(ctx, http.MethodGet, path, nil, &list); err != nil {
		return err
	}
	for _, object := range list.Items {
		if err := each(object, false); err != nil {
			return err
		}
	}
	since := list.Metadata.ResourceVersion
	for {
		err := a.watch(ctx, path, &since, each)
		switch {
		case ctx.Err() != nil:
			return nil
		case !errors.Is(err, io.EOF): // the server may end a watch at any time
			return fmt.Errorf("watch %s: %w", path, err)
		}
	}
}

// watch follows changes since a version until the server ends the watch, and advances the version.
func (a *API) watch(ctx context.Context, path string, since *string, each func(object json.RawMessage, gone bool) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path+"?watch=1&resourceVersion="+*since, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := (&http.Client{Transport: a.client.Transport}).Do(request) // without a timeout
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return events(response, since, each)
}

// events reads the events of a watch until it ends.
func events(response *http.Response, since *string, each func(object json.RawMessage, gone bool) error) error {
	if response.StatusCode != http.StatusOK {
		said, err := io.ReadAll(io.LimitReader(response.Body, 300))
		return errors.Join(fmt.Errorf("%s: %s", response.Status, said), err)
	}
	for lines := json.NewDecoder(response.Body); ; {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := lines.Decode(&event); err != nil {
			return err
		}
		switch event.Type {
		case "ADDED", "MODIFIED", "DELETED":
			var object struct {
				Metadata struct{ ResourceVersion string }
			}
			if err := json.Unmarshal(event.Object, &object); err != nil {
				return err
			}
			*since = object.Metadata.ResourceVersion
			if err := each(event.Object, event.Type == "DELETED"); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: %s", event.Type, event.Object)
		}
	}
}
