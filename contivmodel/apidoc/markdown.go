package apidoc

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
)

const preface = `# Configuration objects

Written by ` + "`go test ./contivmodel/apidoc -update`" + ` from the declarations in
` + "`contivmodel`" + `; change those instead. The same for programs is what every netmaster answers to
` + "`GET /api/v1/openapi.json`" + `, an OpenAPI 3.1 document.

For every object with path segment S:

| Operation | Request |
|---|---|
| list | ` + "`GET /api/v1/S/`" + `, of one tenant with ` + "`?tenant=T`" + ` |
| watch | ` + "`GET /api/v1/S/?watch=true`" + ` |
| get | ` + "`GET /api/v1/S/KEY/`" + ` |
| create, or replace what may change | ` + "`POST /api/v1/S/KEY/`" + ` (PUT is the same) |
| delete | ` + "`DELETE /api/v1/S/KEY/`" + ` |
| get with run-time data | ` + "`GET /api/v1/inspect/S/KEY/`" + ` |

Success is always status 200. Errors are status 500 with a text, as clients of the original
controller expect; with ` + "`Accept: application/problem+json`" + ` they are a proper status with
` + "`{code, reason, message, field, details, requestId}`" + `.

**Ids of requests.** An answer has the header ` + "`" + contivmodel.RequestIDHeader + "`" + ` of its request, or a new one where that has none:
letters, digits, dots, dashes and underlines, 64 at most. The lines about the request in netmaster's log and in the audit log have it, too.

**Warnings.** A secret, such as the password of a BGP speaker, that was sent over plain HTTP is taken where that is served; the answer has a header ` + "`" + contivmodel.WarningHeader + "`" + `
(` + "`299 - \"...\"`" + `) with a text for people.

**Browsers.** Changes that a page of another site sends are refused with 403: where
` + "`Sec-Fetch-Site`" + ` says so or, without it, where ` + "`Origin`" + ` is not the host of the request. A proxy
in front of netmaster has to leave one of the two as the browser sent it. Clients that send
neither are let in. A header of more than 32 KiB is refused with 431.

**Long answers.** An answer is one state, whole, however slowly it is read; it is made before its
first byte is sent, and kept compressed. A client has ten seconds for each 64 KiB. Few long answers
are made at a time and all that wait for their readers take 64 MiB at most: beyond that a request
is refused as unavailable, with ` + "`Retry-After`" + `.

**Revisions.** The answer with an object carries its revision, that of the store at its last
change, as ` + "`ETag`" + `; one with a list carries the store's as ` + "`Contiv-Revision`" + `. With
` + "`If-Match: \"REVISION\"`" + ` a POST, PUT or DELETE is refused (412, reason conflict) if the object
has another one, so that of two editors the slower is told; ` + "`If-None-Match: *`" + ` only creates. With
` + "`?dryRun=true`" + ` it is only tried: the answer is what would be stored, or why it would be refused.
Where a change cannot be tried, as of users, tokens and nodes, ` + "`dryRun`" + ` has it refused.

**Watches.** A watch is answered with lines of JSON,
` + "`{\"type\":\"ADDED\",\"revision\":N,\"object\":{...}}`" + `: first every object that is there as ADDED and
one BOOKMARK, then each change as ADDED, MODIFIED or DELETED. With ` + "`&revision=N`" + ` only the
changes after N are told; 410 says that they are not known any more, and that the client has to
begin anew. A BOOKMARK comes when nothing has happened for 30 seconds, and after a thousand changes
of other objects. The stream ends when another netmaster takes the lead or the client does not
read; it can be taken up after the last
revision, with any netmaster. Link-sets in an event are those of the moment it is sent.

**Many changes at once.** ` + "`POST /api/v1/apply`" + ` with
` + "`{\"operations\":[{\"op\":\"apply\",\"type\":\"network\",\"object\":{...}}]}`" + ` makes all changes or, if one is
refused, none; the refusal lists every operation that was, as details. ` + "`apply`" + ` creates, updates
or leaves alone what is as wanted, ` + "`create`" + ` does not update, ` + "`delete`" + ` takes a ` + "`key`" + ` and may be
told to ` + "`ignoreNotFound`" + `; ` + "`ifRevision`" + ` is what If-Match is for one object. The operations may come
in any order. Deletions are made first, objects before those they refer to; then the others,
the other way round; then deletions of what was in use until then. ` + "`?dryRun=true`" + ` only says
what would happen. The request may have 16 MiB and 200,000 operations. Other changes go on
while it is carried out; one of an object that is part of it waits until that is stored,
and so does an answer with its revision, which is not known before.

` + "`GET /api/v1/status`" + ` tells how the cluster is doing.
` + "`GET /api/v1/security`" + ` tells how far it is closed, ` + "`/report`" + ` below it what an enforced cluster would have
refused in 24 hours; ` + "`POST`" + ` to ` + "`/init`" + `, ` + "`/enforce`" + ` and ` + "`/relax`" + ` changes it ([security.md](security.md)), with ` + "`?dryRun=true`" + ` not.
` + "`GET /api/v1/counters/policys/KEY/`" + ` tells what the rules of a policy have counted, by rule, summed
over the nodes; those that do not answer within 3 seconds are named as ` + "`silent`" + `. The nodes are asked for one answer at a time, which all who ask for it
meanwhile share; to a client it is one of its four long answers. A packet between two
nodes is decided about where it is sent and again where it is received: one that is allowed counts twice.
What an endpoint has sent and received is in its inspection. Counters begin when the switch does, not the agent.

` + "`GET /api/v1/verdict?from=ENDPOINT&to=ENDPOINT&protocol=tcp&port=80`" + ` tells whether one may begin a connection to the other,
over each version of IP that both have, and who has decided: rules between groups, then policies of Kubernetes by their tiers. A
pod is ` + "`NAMESPACE:POD`" + `. It is what the state says, which agents make flows of; flows are not looked at.

` + "`GET /api/v1/trace?from=ENDPOINT&to=ENDPOINT&protocol=tcp&port=80`" + ` asks the switches: what the tables of the sender's node, and then those of the
receiver's, do with the first packet of a connection, and which flow of whom drops it. ` + "`to`" + ` may be an address, ` + "`protocol`" + ` ` + "`icmp`" + `, and ` + "`source`" + ` an address that the packet says it
comes from. Nothing is sent. A switch does not tell which provider of a service it would choose: the hop says which there are, and a trace to one of
them goes on.

` + "`GET /api/v1/inspect/networkPolicies/NAMESPACE:NAME/`" + ` tells where a NetworkPolicy of Kubernetes is in force: ` + "`realised`" + ` "on 1 of 2 nodes" of those (` + "`nodes`" + `) with pods
that it selects, and which are ` + "`missing`" + `, each with ` + "`why`" + `. Whoever may see what is in a tenant sees the policies of its namespaces, and those that select pods of it; of nodes, those with such pods.

` + "`GET /api/v1/inspect/serviceLBs/KEY/`" + ` tells in ` + "`Oper.counters`" + ` what each provider received from clients (` + "`rx`" + `)
and sent to them (` + "`tx`" + `), by its address, as all nodes have counted it; nodes that did not answer are in ` + "`Oper.silent`" + `.

Texts are UTF-8 without control characters; limits of requests, and of texts that have none
below, are in [limits.md](limits.md).

An absent text, number or list is the same as an empty one, as 0 or as null: for a field with a
default each of them means the default. *Req* marks what may not be
empty, *Chg* what an update may change; links are the server's to write.
`

// Markdown returns the reference page of the objects.
func Markdown() string {
	var page strings.Builder
	page.WriteString(preface)
	for _, k := range contivmodel.Kinds() {
		fmt.Fprintf(&page, "\n## %s\n\n%s Segment `%s`, key `%s`.\n\n", k.Type, k.Doc, k.Segment, keyForm(k))
		page.WriteString("| Field | Type | Req | Chg | Rule | Meaning |\n|---|---|---|---|---|---|\n")
		for _, f := range k.Fields {
			fmt.Fprintf(&page, "| %s | %s | %s | %s | %s | %s |\n", f.Name, typeName(f), mark(f.Required), mark(f.Changeable), rules(f), f.Doc)
		}
	}
	page.WriteString(plainTable())
	return page.String()
}

func typeName(f contivmodel.Field) string {
	if f.Kind() == reflect.Slice {
		return "[string]"
	}
	return f.Kind().String()
}

func mark(yes bool) string {
	if yes {
		return "yes"
	}
	return ""
}

// rules returns the rules of a field in words.
func rules(f contivmodel.Field) string {
	var parts []string
	switch {
	case f.Kind() == reflect.Int && f.Max > 0:
		parts = append(parts, fmt.Sprintf("%d to %d", f.Min, f.Max))
	case f.Max > 0:
		parts = append(parts, fmt.Sprintf("at most %d bytes", f.Max))
	}
	if _, meaning := f.Pattern(); meaning != "" {
		parts = append(parts, meaning)
	}
	if f.Unless != "" {
		parts = append(parts, "may be empty if `"+f.Unless+"` is given")
	}
	if len(f.OneOf) > 0 {
		parts = append(parts, "`"+strings.Join(f.OneOf, "`, `")+"`")
	}
	if f.Default != "" {
		parts = append(parts, "default `"+f.Default+"`")
	}
	return strings.Join(parts, "; ")
}
