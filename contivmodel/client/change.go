package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// changeAttempts is how often a change is retried because another one came first.
const changeAttempts = 5

// Change reads an object, lets the caller modify it and stores the result, provided that no other change was
// stored in between; otherwise it starts again. For an object that does not exist, change receives an empty one
// and the server's fault.NotFound; the error that it returns ends Change, and nil creates the object. On servers
// without revisions the last of two concurrent changes wins.
func (c *Client) Change(ctx context.Context, kind contivmodel.Kind, key string, change func(o contivmodel.Object, absent error) error) error {
	var err error
	for range changeAttempts {
		if err = c.changeOnce(ctx, kind, key, change); !errors.As(err, new(outdated)) {
			return err
		}
	}
	return err
}

func (c *Client) changeOnce(ctx context.Context, kind contivmodel.Kind, key string, change func(contivmodel.Object, error) error) error {
	if err := checkKey(key); err != nil {
		return err
	}
	o := kind.New()
	header, err := c.send(ctx, request{method: http.MethodGet, path: pathOf(kind.Segment, key)}, o)
	condition := map[string]string{}
	switch tag := header.Get("ETag"); {
	case fault.Is(err, fault.NotFound):
		condition["If-None-Match"] = "*"
		o = kind.New()
	case err != nil:
		return err
	case tag != "":
		condition["If-Match"] = tag
	}
	if err := change(o, err); err != nil {
		return err
	}
	return c.post(ctx, o, condition)
}
