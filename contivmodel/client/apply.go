package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// Operation is one part of an Apply.
type Operation struct {
	Op             string             `json:"op"`
	Type           string             `json:"type"`
	Key            string             `json:"key"`
	Object         contivmodel.Object `json:"object,omitempty"`         // not for delete
	IfRevision     int64              `json:"ifRevision,omitempty"`     // refuse if the object has another revision; 0: any
	IgnoreNotFound bool               `json:"ignoreNotFound,omitempty"` // for delete: a missing object is not an error
}

// ToApply returns the operation that makes the object as it is here.
func ToApply(o contivmodel.Object) Operation {
	o.SetKey(o.ModelKey())
	contivmodel.ClearLinks(o)
	return Operation{Op: contivmodel.OpApply, Type: o.ModelType(), Key: o.ModelKey(), Object: o}
}

// ToDelete returns the operation that removes an object.
func ToDelete(o contivmodel.Object) Operation {
	return Operation{Op: contivmodel.OpDelete, Type: o.ModelType(), Key: o.ModelKey()}
}

// Apply carries out all operations, or none if one of them is refused. The server sorts them. With dryRun it only
// returns what would happen.
func (c *Client) Apply(ctx context.Context, operations []Operation, dryRun bool) (contivmodel.Applied, error) {
	var applied contivmodel.Applied
	body, err := json.Marshal(map[string][]Operation{"operations": operations})
	if err != nil {
		return applied, fault.New(fault.Internal, "apply: %w", err)
	}
	path := "/api/v1/apply"
	if dryRun {
		path += "?dryRun=true"
	}
	err = c.do(ctx, http.MethodPost, path, body, &applied)
	return applied, err
}
