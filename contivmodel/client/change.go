package client

import (
	"context"
	"errors"
	"net/http"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// changeAttempts is how often a change begins anew because another one came first.
const changeAttempts = 5

// Change reads an object, lets the caller change it and stores the result,
// provided that nobody else has stored another in between; otherwise it begins
// anew. For an object that does not exist, change gets an empty one and the
// server's fault.NotFound; what it returns then ends the change or creates the
// object. Servers without revisions store the last of two changes.
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
