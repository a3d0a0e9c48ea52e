package history

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Verb is the kind of an operation.
type Verb string

// The verbs. The first three are for model objects, the others for the routes of agents.
const (
	Post   Verb = "post" // create or update
	Delete Verb = "delete"
	Get    Verb = "get"
	Apply  Verb = "apply" // several of the first two at once

	CreateEndpoint Verb = "createEndpoint"
	DeleteEndpoint Verb = "deleteEndpoint"
	UpdateEndpoint Verb = "updateEndpoint"
	AllocAddress   Verb = "allocAddress"
	ReleaseAddress Verb = "releaseAddress"
)

// Operation is one request of a client.
type Operation struct {
	Verb    Verb
	Type    string // of the object; "endpoint" and "address" for the routes of agents
	Key     string // of the object; the id of the endpoint; the id of the network of the address
	Object  contivmodel.Object
	Request any    // body for the routes of agents
	Wrong   string // what is invalid on purpose; such an operation must fail
	Guarded bool   // only if the object is as the client has seen it

	Members []Operation // of an apply
	Trial   bool        // a dry run of an apply
	Lenient bool        // a deletion, as member, of an object that may be absent
}

func (op Operation) String() string {
	text := fmt.Sprintf("%s %s %s", op.Verb, op.Type, op.Key)
	switch {
	case op.Object != nil:
		text += fmt.Sprintf(" %+v", op.Object)
	case op.Request != nil:
		text += fmt.Sprintf(" %+v", op.Request)
	case op.Members != nil:
		text += fmt.Sprintf(" %v", op.Members)
	}
	return text
}

var pluginPaths = map[Verb]string{
	CreateEndpoint: mastercfg.CreateEndpointPath, DeleteEndpoint: mastercfg.DeleteEndpointPath,
	UpdateEndpoint: mastercfg.UpdateEndpointPath,
	AllocAddress:   mastercfg.AllocAddressPath, ReleaseAddress: mastercfg.ReleaseAddressPath,
}

// request returns the HTTP request.
func (op Operation) request() (method, path string, body any) {
	if path, ok := pluginPaths[op.Verb]; ok {
		return http.MethodPost, path, op.Request
	}
	kind, _ := contivmodel.KindByType(op.Type)
	path = "/api/v1/" + kind.Segment + "/" + op.Key + "/"
	switch op.Verb {
	case Post:
		return http.MethodPost, path, op.Object
	case Delete:
		return http.MethodDelete, path, nil
	}
	return http.MethodGet, path, nil
}

// storeKey returns the key whose existence the operation is about; addresses have none.
func (op Operation) storeKey() string {
	switch op.Type {
	case "endpoint":
		return endpointPrefix + op.Key
	case "address", "":
		return ""
	}
	return modelPrefix + op.Type + "/" + op.Key
}

// tenantOf returns the tenant in a model key.
func tenantOf(key string) string {
	tenant, _, _ := strings.Cut(key, ":")
	return tenant
}
