package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Watch lists the objects of a path and follows their changes: each is called with every object, and
// whether it is gone. It ends without an error when ctx does.
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path+"?watch=1&resourceVersion="+list.Metadata.ResourceVersion, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+a.token)
	response, err := (&http.Client{Transport: a.client.Transport}).Do(request) // without a limit of time
	if err == nil {
		defer response.Body.Close()
		err = events(response, each)
	}
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch %s: %w", path, err)
}

// events reads those of a watch until it ends.
func events(response *http.Response, each func(object json.RawMessage, gone bool) error) error {
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
			if err := each(event.Object, event.Type == "DELETED"); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: %s", event.Type, event.Object)
		}
	}
}
