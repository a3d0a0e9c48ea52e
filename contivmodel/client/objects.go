package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// List returns all objects of a type, sorted by key.
func List[T any, P contivmodel.Pointer[T]](ctx context.Context, c *Client) ([]T, error) {
	var all []T
	err := c.do(ctx, http.MethodGet, pathOf(kindOf[T, P]().Segment), nil, &all)
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(P(&a).ModelKey(), P(&b).ModelKey()) })
	return all, err
}

// Get returns one object; fault.NotFound if there is none of that key.
func Get[T any, P contivmodel.Pointer[T]](ctx context.Context, c *Client, key string) (T, error) {
	var o T
	err := c.object(ctx, http.MethodGet, kindOf[T, P](), key, &o)
	return o, err
}

// Inspect returns an object with its run-time data:
//
//	answer, err := client.Inspect[contivmodel.Network, contivmodel.NetworkOper](ctx, c, "blue:web")
//
// For types without run-time data the second type may be struct{}.
func Inspect[T, Oper any, P contivmodel.Pointer[T]](ctx context.Context, c *Client, key string) (contivmodel.Inspect[T, Oper], error) {
	var answer contivmodel.Inspect[T, Oper]
	raw, err := c.InspectRaw(ctx, kindOf[T, P]().Segment, key)
	if err == nil {
		err = decode(c.bases[0], pathOf("inspect", kindOf[T, P]().Segment, key), raw, &answer)
	}
	return answer, err
}

// Endpoint returns the run-time data of the endpoint with an id, container id or name.
func Endpoint(ctx context.Context, c *Client, id string) (contivmodel.EndpointOper, error) {
	var answer contivmodel.EndpointInspect
	raw, err := c.InspectRaw(ctx, contivmodel.EndpointSegment, id)
	if err == nil {
		err = decode(c.bases[0], pathOf("inspect", contivmodel.EndpointSegment, id), raw, &answer)
	}
	return answer.Oper, err
}

// Post creates an object, or replaces it where the server allows that. The object's key is set from its fields;
// links are not sent.
func Post(ctx context.Context, c *Client, o contivmodel.Object) error {
	return c.post(ctx, o, nil)
}

// Create is Post for an object that must not exist: an existing one is unchanged, and the error is a
// fault.Conflict.
func Create(ctx context.Context, c *Client, o contivmodel.Object) error {
	return c.post(ctx, o, map[string]string{"If-None-Match": "*"})
}

func (c *Client) post(ctx context.Context, o contivmodel.Object, header map[string]string) error {
	key := o.ModelKey()
	if err := checkKey(key); err != nil {
		return err
	}
	o.SetKey(key)
	contivmodel.ClearLinks(o)
	body, err := json.Marshal(o)
	if err != nil {
		return fault.New(fault.Internal, "%s %s: %w", o.ModelType(), key, err)
	}
	path := pathOf(contivmodel.KindOf(o).Segment, key)
	_, err = c.send(ctx, request{method: http.MethodPost, path: path, body: body, header: header}, nil)
	return err
}

// Delete removes an object by type and key; a missing one is a fault.NotFound.
func Delete[T any, P contivmodel.Pointer[T]](ctx context.Context, c *Client, key string) error {
	return c.Delete(ctx, kindOf[T, P](), key)
}

// List returns all objects of a kind, sorted by key, for callers that know the kind at run time only.
func (c *Client) List(ctx context.Context, kind contivmodel.Kind) ([]contivmodel.Object, error) {
	return c.list(ctx, kind, pathOf(kind.Segment))
}

// ListTenant returns the objects of a kind that belong to a tenant, sorted by key. For kinds without tenants, and
// servers that cannot select, it returns all.
func (c *Client) ListTenant(ctx context.Context, kind contivmodel.Kind, tenant string) ([]contivmodel.Object, error) {
	return c.list(ctx, kind, pathOf(kind.Segment)+"?"+url.Values{"tenant": {tenant}}.Encode())
}

func (c *Client) list(ctx context.Context, kind contivmodel.Kind, path string) ([]contivmodel.Object, error) {
	var raw []json.RawMessage
	if err := c.do(ctx, http.MethodGet, path, nil, &raw); err != nil {
		return nil, err
	}
	objects := make([]contivmodel.Object, len(raw))
	for i, text := range raw {
		objects[i] = kind.New()
		if err := decode(c.bases[0], path, text, objects[i]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(objects, func(a, b contivmodel.Object) int {
		return strings.Compare(a.ModelKey(), b.ModelKey())
	})
	return objects, nil
}

// Get returns one object of a kind.
func (c *Client) Get(ctx context.Context, kind contivmodel.Kind, key string) (contivmodel.Object, error) {
	o := kind.New()
	return o, c.object(ctx, http.MethodGet, kind, key, o)
}

// Delete removes one object of a kind; a missing one is a fault.NotFound.
func (c *Client) Delete(ctx context.Context, kind contivmodel.Kind, key string) error {
	return c.object(ctx, http.MethodDelete, kind, key, nil)
}

// InspectRaw returns the JSON of an inspect response as the server wrote it.
func (c *Client) InspectRaw(ctx context.Context, segment, key string) (json.RawMessage, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	var raw json.RawMessage
	err := c.do(ctx, http.MethodGet, pathOf("inspect", segment, key), nil, &raw)
	return raw, err
}

func (c *Client) object(ctx context.Context, method string, kind contivmodel.Kind, key string, result any) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return c.do(ctx, method, pathOf(kind.Segment, key), nil, result)
}

func kindOf[T any, P contivmodel.Pointer[T]]() contivmodel.Kind { return contivmodel.KindOf(P(new(T))) }
