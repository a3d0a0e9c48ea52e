package apidoc

import (
	"reflect"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/client"
	"github.com/contiv/netplugin/contivmodel/limits"
)

// mediaStream is the media type of a watch: one JSON value per line.
const mediaStream = "application/x-ndjson"

// addCluster adds the routes about the whole cluster.
func addCluster(paths, schemas object) {
	schemas["Applied"] = schemaOf(reflect.TypeFor[contivmodel.Applied](), schemas)
	schemas["Status"] = schemaOf(reflect.TypeFor[contivmodel.Status](), schemas)
	one := schemaOf(reflect.TypeFor[client.Operation](), schemas)
	one["required"] = []string{"op", "type"}
	one["properties"].(object)["op"] = object{"type": "string", "enum": []string{contivmodel.OpApply, contivmodel.OpCreate, contivmodel.OpDelete}}
	schemas["Operation"] = one
	schemas["Event"] = object{"type": "object", "required": []string{"type", "revision"}, "properties": object{
		"type":     object{"type": "string", "enum": []string{client.Added, client.Modified, client.Deleted, client.Bookmark}},
		"revision": object{"type": "integer", "description": "of the store; a watch can go on after it"},
		"object":   object{"type": "object", "description": "as it is, or before it was deleted; none in a BOOKMARK"},
	}}
	body := object{"type": "object", "required": []string{"operations"}, "properties": object{
		"operations": object{"type": "array", "items": ref("Operation"), "maxItems": limits.Operations}}}
	all := operation("apply", "Carry out all operations, or none if one is refused", body, ref("Applied"))
	all["parameters"] = []any{queryParameter("dryRun", "boolean", "only say what would happen")}
	paths["/api/v1/apply"] = object{"post": all}
	counters := operation("countersPolicy", "What the rules of a policy have counted on all nodes", nil,
		schemaOf(reflect.TypeFor[contivmodel.PolicyCounters](), schemas))
	counters["parameters"] = []any{keyParameter("tenantName:policyName")}
	paths["/api/v1/counters/policys/{key}/"] = object{"get": counters}
	verdict := operation("verdict", "Whether an endpoint may begin a connection to another, and what decides", nil,
		schemaOf(reflect.TypeFor[contivmodel.Verdicts](), schemas))
	verdict["parameters"] = []any{
		queryParameter("from", "string", "an endpoint, as it is inspected"), queryParameter("to", "string", "an endpoint, as it is inspected"),
		queryParameter("protocol", "string", "tcp, udp or sctp"), queryParameter("port", "integer", "1 to 65535"),
	}
	paths["/api/v1/verdict"] = object{"get": verdict}
	trace := operation("trace", "The way of a packet that an endpoint might send, as the switches tell it", nil,
		schemaOf(reflect.TypeFor[contivmodel.Trace](), schemas))
	trace["parameters"] = []any{
		queryParameter("from", "string", "an endpoint, as it is inspected"), queryParameter("to", "string", "an endpoint, as it is inspected, or an address"),
		queryParameter("protocol", "string", "tcp, udp, sctp or icmp"), queryParameter("port", "integer", "1 to 65535; not with icmp"),
		queryParameter("source", "string", "an address that is not the sender's"),
	}
	paths["/api/v1/trace"] = object{"get": trace}
	addSecurity(paths, schemas)
	paths["/api/v1/status"] = object{"get": operation("status", "How the cluster is doing", nil, ref("Status"))}
	paths["/api/v1/openapi.json"] = object{"get": operation("openapi", "This document", nil, object{"type": "object"})}
}

// addSecurity adds the routes about the security mode.
func addSecurity(paths, schemas object) {
	schemas["SecurityStatus"] = schemaOf(reflect.TypeFor[contivmodel.SecurityStatus](), schemas)
	const root = "/api/v1/security"
	paths[root] = object{"get": operation("security", "How far the cluster is closed, and which daemons show certificates", nil, ref("SecurityStatus"))}
	paths[root+"/report"] = object{"get": operation("securityReport", "What an enforced cluster would have refused in the last 24 hours", nil,
		schemaOf(reflect.TypeFor[contivmodel.SecurityReport](), schemas))}
	for step, summary := range map[string]string{
		"init":    "Give an open cluster authorities for certificates, and make it permissive",
		"enforce": "Close a permissive cluster, all of whose daemons show certificates, and whose store others do not reach plainly",
		"relax":   "Make an enforced cluster permissive again",
	} {
		change := operation("security"+strings.ToUpper(step[:1])+step[1:], summary, nil, ref("SecurityStatus"))
		change["parameters"] = []any{queryParameter("dryRun", "boolean", "only say what would happen")}
		paths[root+"/"+step] = object{"post": change}
	}
}

// Parameters and headers of many operations. Their names differ from those of schemas, since generators of clients
// make types of both.
var (
	parameters = object{
		"tenantQuery":       queryParameter("tenant", "string", "only what belongs to this tenant"),
		"watchQuery":        queryParameter("watch", "boolean", "tell changes, as lines of JSON: what is there as ADDED, a BOOKMARK, then every change"),
		"revisionQuery":     queryParameter("revision", "integer", "with watch: only changes after this revision; 410 if they are not known any more"),
		"dryRunQuery":       queryParameter("dryRun", "boolean", "only say what would happen"),
		"ifMatchHeader":     headerParameter("If-Match", "refuse with 412 unless the object has this ETag"),
		"ifNoneMatchHeader": headerParameter("If-None-Match", "* on POST and PUT: refuse with 412 if the object exists"),
	}
	headers = object{
		"etag":     object{"description": "revision of the object's last change, in quotes", "schema": object{"type": "string"}},
		"revision": object{"description": "revision of the store at which this was so", "schema": object{"type": "string"}},
	}
)

// Responses of all operations.
var responses = object{
	"refused": object{"description": "refused", "content": object{
		mediaProblem: object{"schema": ref("Problem")},
		mediaText:    object{"schema": object{"type": "string", "description": "for clients that did not ask for a problem"}},
		mediaJSON: object{"schema": object{"type": "object", "description": "the same, with status 401 and 403, because of who asks",
			"properties": object{"error": object{"type": "string"}}}},
	}},
}

// component returns references to parts of the document.
func component(kind string, names ...string) []any {
	var refs []any
	for _, name := range names {
		refs = append(refs, object{"$ref": "#/components/" + kind + "/" + name})
	}
	return refs
}

// watchable adds the stream to the response of a listing.
func watchable(list object) object {
	list["parameters"] = component("parameters", "tenantQuery", "watchQuery", "revisionQuery")
	done := list["responses"].(object)["200"].(object)
	done["content"].(object)[mediaStream] = object{"schema": ref("Event")}
	done["headers"] = object{"Contiv-Revision": component("headers", "revision")[0]}
	return list
}

// guarded adds the condition on the revision of an object, and the dry run, to an operation on it.
func guarded(op object) object {
	op["parameters"] = component("parameters", "ifMatchHeader", "ifNoneMatchHeader", "dryRunQuery")
	return op
}

// tagged adds to the response the revision of the object.
func tagged(op object) object {
	op["responses"].(object)["200"].(object)["headers"] = object{"ETag": component("headers", "etag")[0]}
	return op
}

func queryParameter(name, typ, description string) object {
	return object{"name": name, "in": "query", "description": description, "schema": object{"type": typ}}
}

func headerParameter(name, description string) object {
	return object{"name": name, "in": "header", "description": description, "schema": object{"type": "string"}}
}
