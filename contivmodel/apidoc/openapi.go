// Package apidoc writes the reference of the REST interface from the declarations of contivmodel: an OpenAPI
// document for programs and a page for users. Both are in docs/, and a test fails when they are out of date:
//
//	go test ./contivmodel/apidoc -update
package apidoc

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// object is a JSON object under construction.
type object = map[string]any

const mediaJSON, mediaProblem, mediaText = "application/json", fault.ProblemType, "text/plain"

// OpenAPI returns the OpenAPI 3.1 document of the configuration routes.
func OpenAPI() ([]byte, error) {
	schemas := object{
		"Link":    schemaOf(reflect.TypeFor[contivmodel.Link](), object{}),
		"LinkSet": object{"type": "object", "additionalProperties": ref("Link"), "description": "links by object key"},
		"Problem": problemSchema(),
	}
	paths := object{}
	for _, k := range contivmodel.Kinds() {
		addKind(k, paths, schemas)
	}
	addCluster(paths, schemas)
	addPlain(paths, schemas)
	endpoint := reflect.TypeFor[contivmodel.EndpointInspect]()
	paths["/api/v1/inspect/"+contivmodel.EndpointSegment+"/{key}/"] = object{
		"parameters": []any{keyParameter("id, container id or name of an endpoint")},
		"get":        operation("inspectEndpoint", "Show an endpoint", nil, schemaOf(endpoint, schemas)),
	}
	policy := reflect.TypeFor[contivmodel.NetworkPolicyInspect]()
	paths["/api/v1/inspect/"+contivmodel.NetworkPolicySegment+"/{key}/"] = object{
		"parameters": []any{keyParameter("NAMESPACE:NAME of a NetworkPolicy of Kubernetes")},
		"get":        operation("inspectNetworkPolicy", "Tell on which nodes a NetworkPolicy of Kubernetes is in force", nil, schemaOf(policy, schemas)),
	}
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{"title": "netmaster", "version": "v1",
			"description": "Configuration objects of the cluster. Success is always 200. Errors are 500 with a text, " +
				"or, for requests that accept " + mediaProblem + ", a proper status with a problem document."},
		"paths":      paths,
		"components": object{"schemas": schemas, "parameters": parameters, "headers": headers, "responses": responses},
	}, "", "  ")
}

// addKind adds the routes and schemas of one kind.
func addKind(k contivmodel.Kind, paths, schemas object) {
	schemas[k.Type] = kindSchema(k)
	config := ref(k.Type)
	inspect := object{"type": "object", "properties": object{"Config": config}}
	if k.Oper != nil {
		inspect["properties"].(object)["Oper"] = schemaOf(reflect.TypeOf(k.Oper), schemas)
	}
	name := strings.ToUpper(k.Type[:1]) + k.Type[1:]
	key := []any{keyParameter(keyForm(k))}
	paths["/api/v1/"+k.Segment+"/"] = object{
		"get": watchable(operation("list"+name, "List, sorted by key", nil, object{"type": "array", "items": config})),
	}
	paths["/api/v1/"+k.Segment+"/{key}/"] = object{
		"parameters": key,
		"get":        tagged(operation("get"+name, "Get one", nil, config)),
		"post":       guarded(tagged(operation("set"+name, "Create, or replace what may change", config, config))),
		"put":        guarded(tagged(operation("put"+name, "Same as POST", config, config))),
		"delete":     guarded(operation("delete"+name, "Delete", nil, object{"type": "string", "description": "the key"})),
	}
	paths["/api/v1/inspect/"+k.Segment+"/{key}/"] = object{
		"parameters": key,
		"get":        operation("inspect"+name, "Get one with its run-time data", nil, inspect),
	}
}

// keyForm returns the form of the key of a kind: "tenantName:networkName".
func keyForm(k contivmodel.Kind) string {
	var parts []string
	for _, f := range k.KeyFields() {
		parts = append(parts, f.Name)
	}
	return strings.Join(parts, ":")
}

func keyParameter(description string) object {
	return object{"name": "key", "in": "path", "required": true, "description": description, "schema": object{"type": "string"}}
}

func operation(id, summary string, body, answer object) object {
	op := object{
		"operationId": id, "summary": summary,
		"responses": object{
			"200":     object{"description": "done", "content": object{mediaJSON: object{"schema": answer}}},
			"default": component("responses", "refused")[0],
		},
	}
	if body != nil {
		op["requestBody"] = object{"required": true, "content": object{mediaJSON: object{"schema": body}}}
	}
	return op
}

func problemSchema() object {
	text := object{"type": "string"}
	return object{"type": "object", "required": []string{"code", "reason", "message"}, "properties": object{
		"code": object{"type": "integer"}, "reason": text, "message": text, "field": text,
		"details": object{"type": "array", "items": text}, "requestId": text,
	}}
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }
