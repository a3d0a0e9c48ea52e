package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/contivmodel/limits"
	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/utils/fault"
)

// applying sends operations, given as JSON, that must be accepted, and returns
// what became of each as "result type key".
func (b *bench) applying(query string, operations ...string) []string {
	b.Helper()
	var answer contivmodel.Applied
	text := b.ok("POST", rest.ApplyPath+query, body(operations))
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		b.Fatal(err)
	}
	if answer.Revision == 0 || answer.DryRun != strings.Contains(query, "true") {
		b.Errorf("answer %s", text)
	}
	all := []string{}
	for _, r := range answer.Results {
		all = append(all, r.Result+" "+r.Type+" "+r.Key)
	}
	return all
}

func body(operations []string) string {
	return `{"operations":[` + strings.Join(operations, ",") + `]}`
}

func apply(objType, object string) string {
	return fmt.Sprintf(`{"op":"apply","type":"%s","object":%s}`, objType, object)
}

func drop(objType, key string) string {
	return fmt.Sprintf(`{"op":"delete","type":"%s","key":"%s"}`, objType, key)
}

// shop is a bit of everything, in an order in which nothing could be created.
var shop = []string{
	apply("rule", `{"tenantName":"shop","policyName":"p","ruleId":"1","direction":"in","action":"allow","protocol":"tcp","port":80,"fromEndpointGroup":"back"}`),
	apply("serviceLB", `{"tenantName":"shop","serviceName":"s","networkName":"web","ports":["80:8080:TCP"],"selectors":["app=web"]}`),
	apply("endpointGroup", `{"tenantName":"shop","groupName":"front","networkName":"web","policies":["p"],"netProfile":"gold"}`),
	apply("endpointGroup", `{"tenantName":"shop","groupName":"back","networkName":"web"}`),
	apply("appProfile", `{"tenantName":"shop","appProfileName":"a","endpointGroups":["front","back"]}`),
	apply("policy", `{"tenantName":"shop","policyName":"p"}`),
	apply("netprofile", `{"tenantName":"shop","profileName":"gold","DSCP":7}`),
	apply("network", `{"tenantName":"shop","networkName":"web","encap":"vxlan","subnet":"10.9.0.0/24"}`),
	apply("tenant", `{"tenantName":"shop"}`),
}

// results returns the results of the operations of shop.
func results(what string) []string {
	return []string{
		what + " rule shop:p:1", what + " serviceLB shop:s", what + " endpointGroup shop:front", what + " endpointGroup shop:back",
		what + " appProfile shop:a", what + " policy shop:p", what + " netprofile shop:gold", what + " network shop:web", what + " tenant shop",
	}
}

func (b *bench) same(what string, got, want any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("%s: %s", what, diff)
	}
}

func TestAnApplyPutsItsOperationsInOrder(t *testing.T) {
	b := ready(t)
	empty := storetest.Dump(t, b.db)
	b.same("a dry run", b.applying("?dryRun=true", shop...), results("created"))
	b.same("the store after it", storetest.Dump(t, b.db), empty)

	b.same("an apply", b.applying("", shop...), results("created"))
	full := storetest.Dump(t, b.db)
	b.same("the same again", b.applying("", shop...), results("unchanged"))
	b.same("the store after it", storetest.Dump(t, b.db), full)
	b.same("stored objects", b.applying("/?dryRun=true", apply("network", b.ok("GET", "networks/shop:web", ""))), []string{"unchanged network shop:web"})

	var drops []string
	for _, r := range results("delete") {
		part := strings.Fields(r)
		drops = append(drops, drop(part[1], part[2]))
	}
	b.same("a dry run", b.applying("?dryRun=true", drops...), results("deleted"))
	b.same("the store after it", storetest.Dump(t, b.db), full)
	b.same("deletion", b.applying("", drops...), results("deleted"))
	after := storetest.Dump(t, b.db)
	delete(after, "/contiv.io/oper/auto-epg/global") // the pool of ids stays once it is there
	b.same("the store after it", after, empty)
}

func TestWhatAnApplyFreesItCanUse(t *testing.T) {
	b := ready(t)
	b.applying("", shop...)
	// A new network gets the subnet of a deleted one, a policy that a group no longer has is deleted, and an object
	// is replaced by one with its name.
	b.applying("", drop("serviceLB", "shop:s"), drop("appProfile", "shop:a"))
	got := b.applying("",
		drop("policy", "shop:p"),
		apply("endpointGroup", `{"tenantName":"shop","groupName":"front","networkName":"new","netProfile":"gold"}`),
		drop("endpointGroup", "shop:front"),
		drop("endpointGroup", "shop:back"),
		apply("network", `{"tenantName":"shop","networkName":"new","encap":"vxlan","subnet":"10.9.0.0/25"}`),
		drop("network", "shop:web"),
		apply("netprofile", `{"tenantName":"shop","profileName":"gold","DSCP":8}`),
		`{"op":"delete","type":"tenant","key":"nobody","ignoreNotFound":true}`,
	)
	b.same("results", got, []string{
		"deleted policy shop:p", "created endpointGroup shop:front", "deleted endpointGroup shop:front", "deleted endpointGroup shop:back",
		"created network shop:new", "deleted network shop:web", "configured netprofile shop:gold", "unchanged tenant nobody",
	})
	b.checkLinks()

	b.applying("", apply("policy", `{"tenantName":"shop","policyName":"q"}`),
		apply("endpointGroup", `{"tenantName":"shop","groupName":"front","networkName":"new","policies":["q"]}`))
	b.same("a policy that is let go of", b.applying("", drop("policy", "shop:q"),
		apply("endpointGroup", `{"tenantName":"shop","groupName":"front","networkName":"new"}`)),
		[]string{"deleted policy shop:q", "configured endpointGroup shop:front"})
}

// An object that is deleted and created by one apply exists afterwards, or nothing is done: a deletion that users
// of the object hold up does not follow later.
func TestWhatAnApplyMakesIsThereAfterwards(t *testing.T) {
	b := ready(t)
	b.applying("", shop...)
	b.applying("", drop("appProfile", "shop:a"), apply("policy", `{"tenantName":"shop","policyName":"q"}`),
		apply("endpointGroup", `{"tenantName":"shop","groupName":"front","networkName":"web","policies":["q"]}`))
	again := []string{
		drop("policy", "shop:q"), apply("policy", `{"tenantName":"shop","policyName":"q"}`),
		apply("rule", `{"tenantName":"shop","policyName":"q","ruleId":"1","direction":"in","protocol":"tcp","action":"allow"}`),
		apply("endpointGroup", `{"tenantName":"shop","groupName":"front","networkName":"web"}`),
	}
	before := storetest.Dump(t, b.db)
	if code, answer, _ := b.do("POST", rest.ApplyPath, body(again), "Accept", fault.ProblemType); code != 409 || !strings.Contains(answer, "policy shop:q") {
		t.Errorf("%d %s", code, answer)
	}
	b.same("the store", storetest.Dump(t, b.db), before)
	b.same("without a group", b.applying("", drop("endpointGroup", "shop:front"), again[0], again[1], again[2]),
		[]string{"deleted endpointGroup shop:front", "deleted policy shop:q", "created policy shop:q", "created rule shop:q:1"})
}

// refusedApply sends operations that must be refused with these details.
func (b *bench) refusedApply(code int, reason string, details []string, operations ...string) {
	b.Helper()
	before := storetest.Dump(b, b.db)
	status, answer, _ := b.do("POST", rest.ApplyPath, body(operations), "Accept", fault.ProblemType)
	var p fault.Problem
	if err := json.Unmarshal([]byte(answer), &p); err != nil {
		b.Fatalf("%d %q: %v", status, answer, err)
	}
	if status != code || p.Reason != reason || p.Message != details[0] {
		b.Errorf("%d %s %q, want %d %s %q", status, p.Reason, p.Message, code, reason, details[0])
	}
	b.same("details", p.Details, details)
	if status, answer, _ := b.do("POST", rest.ApplyPath, body(operations)); status != 500 || answer != details[0] && !tooShort.MatchString(answer) {
		b.Errorf("%d %s", status, answer)
	}
	b.same("the store", storetest.Dump(b, b.db), before)
}

func TestOneRefusalRefusesAllAndAllAreNamed(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	b.ok("POST", "netprofiles/blue:gold", profile("gold", 1))
	good := apply("policy", `{"tenantName":"blue","policyName":"p"}`)
	b.refusedApply(409, "immutable",
		[]string{
			"network blue:web: Cant change network parameters after its created: delete network blue:web first",
			"endpointGroup blue:g: Policy not found: missing of tenant blue",
			"network blue:b: network web conflicts with subnet 10.7.0.0/24",
			"tenant none: tenant not found",
		},
		apply("network", strings.Replace(web, "10.7", "10.8", 1)), good,
		apply("endpointGroup", `{"tenantName":"blue","groupName":"g","networkName":"web","policies":["missing"]}`),
		apply("network", strings.Replace(web, `"web"`, `"b"`, 1)), drop("tenant", "none"))
	b.refusedApply(400, "invalid", []string{"network blue:x: encap \"\": want vlan or vxlan", `fruit apple: there is no type "fruit"`},
		good, apply("network", `{"tenantName":"blue","networkName":"x","subnet":"10.8.0.0/24"}`), `{"op":"apply","type":"fruit","key":"apple"}`)
	// Errors of the request itself do not hide errors that depend on the cluster.
	b.refusedApply(422, "missing-reference", []string{"endpointGroup blue:g: Policy not found: missing of tenant blue", "policy blue:p: given twice", "network blue:x: encap \"\": want vlan or vxlan"},
		apply("endpointGroup", `{"tenantName":"blue","groupName":"g","networkName":"web","policies":["missing"]}`), good, good,
		apply("network", `{"tenantName":"blue","networkName":"x","subnet":"10.8.0.0/24"}`))
	b.refusedApply(400, "invalid", []string{`network blue:other: key "blue:other" of the network: its fields make it "blue:web"`},
		`{"op":"apply","type":"network","key":"blue:other","object":`+web+`}`)
	b.refusedApply(400, "invalid", []string{`policy blue:p: op "patch" is none of apply, create, delete`}, `{"op":"patch","type":"policy","key":"blue:p"}`)
	b.refusedApply(400, "invalid", []string{"policy blue:p: given twice"}, good, good)
	b.refusedApply(400, "malformed", []string{"operation 1 policy: policy: field policyName takes no number"}, apply("policy", `{"policyName":1}`))
	b.refusedApply(501, "unsupported", []string{"operation 1 volume: Invalid object type"}, apply("volume", `{}`))
	b.refusedApply(409, "conflict", []string{"netprofile blue:gold: exists and differs"},
		`{"op":"create","type":"netprofile","object":`+profile("gold", 2)+`}`, good)
	b.refusedApply(412, "conflict", []string{"netprofile blue:gold: netprofile blue:gold has changed since revision 1"},
		good, `{"op":"apply","type":"netprofile","ifRevision":1,"object":`+profile("gold", 2)+`}`)
	b.refusedApply(412, "conflict", []string{"netprofile blue:gold: netprofile blue:gold does not exist any more"},
		drop("netprofile", "blue:gold"), fmt.Sprintf(`{"op":"apply","type":"netprofile","ifRevision":%s,"object":%s}`,
			strings.Trim(b.tagged("GET", "netprofiles/blue:gold", ""), `"`), profile("gold", 2)))
	b.refusedApply(409, "in-use", []string{"tenant blue: cannot delete blue has 1 networks"}, drop("tenant", "blue"), drop("netprofile", "blue:gold"))
	for _, malformed := range []string{"", "[]", `{"operations":{}}`} {
		if code, answer, _ := b.do("POST", rest.ApplyPath, malformed, "Accept", fault.ProblemType); code != 400 {
			t.Errorf("%q: %d %s", malformed, code, answer)
		}
	}
	if code, answer, _ := b.do("POST", rest.ApplyPath+"?dryRun=perhaps", `{}`, "Accept", fault.ProblemType); code != 400 {
		t.Errorf("%d %s", code, answer)
	}
	b.same("nothing to do", b.applying(""), []string{})
}

func TestAnApplyIsRefusedIfAnEditorWasFaster(t *testing.T) {
	b := ready(t)
	tag := strings.Trim(b.tagged("POST", "netprofiles/blue:gold", profile("gold", 1)), `"`)
	change := func(dscp int) string {
		return fmt.Sprintf(`{"op":"apply","type":"netprofile","ifRevision":%s,"object":%s}`, tag, profile("gold", dscp))
	}
	b.same("the first", b.applying("", change(2)), []string{"configured netprofile blue:gold"})
	b.refusedApply(412, "conflict", []string{"netprofile blue:gold: netprofile blue:gold has changed since revision " + tag}, change(3))
	b.ok("DELETE", "netprofiles/blue:gold", "")
	b.refusedApply(412, "conflict", []string{"netprofile blue:gold: netprofile blue:gold does not exist any more"}, change(3))
}

// networks returns operations that create many networks; they need several transactions.
func networks(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = apply("network", fmt.Sprintf(`{"tenantName":"blue","networkName":"n%05d","encap":"vxlan","subnet":"10.%d.%d.0/28"}`, i, i>>8, i&255))
	}
	return all
}

func TestALargeApplyIsAsAtomicAsASmallOne(t *testing.T) {
	b := ready(t)
	many := networks(1500)
	before := storetest.Dump(t, b.db)
	code, answer, _ := b.do("POST", rest.ApplyPath, body(append(many, apply("endpointGroup", `{"tenantName":"blue","groupName":"g","networkName":"none"}`))))
	if code != 500 || answer != "endpointGroup blue:g: Network none not found" {
		t.Errorf("%d %s", code, answer)
	}
	b.same("the store", storetest.Dump(t, b.db), before)
	if got := len(b.applying("", many...)); got != 1500 {
		t.Errorf("%d results", got)
	}
	if got := len(storetest.Dump(t, b.db)) - len(before); got != 2*1500 {
		t.Errorf("%d keys were added", got)
	}
	if code, answer, _ := b.do("POST", rest.ApplyPath, strings.Repeat(" ", rest.MaxApply+1)); code != 500 || !strings.HasPrefix(answer, "request body too large") {
		t.Errorf("%d %s", code, answer)
	}
}

func TestAnApplyHasALimitedNumberOfOperations(t *testing.T) {
	m := ready(t)
	many := `{"operations":[` + strings.Repeat(`{},`, limits.Operations) + `{}]}`
	m.refused("POST", rest.ApplyPath, many, "apply has 200001 operations: the limit is 200000", 413, "too-large")
}

// leaving is a type of objects whose client leaves while the second one is created.
type leaving struct {
	objects.Type
	created int
	leave   context.CancelFunc
}

func (l *leaving) Create(c *objects.Change, sent contivmodel.Object) (contivmodel.Object, error) {
	if l.created++; l.created == 2 {
		l.leave()
	}
	return l.Type.Create(c, sent)
}

// A large apply takes seconds: it ends with the operation during which its client leaves, and none of it is
// committed.
func TestAnApplyWhoseClientLeavesIsGivenUp(t *testing.T) {
	b := ready(t)
	profiles := b.api.types["netprofile"]
	before := storetest.Dump(t, b.db)
	for name, c := range map[string]struct {
		query      string
		operations int
	}{
		"a dry run":                       {"?dryRun=true", 5},
		"one of few operations":           {"", 5},
		"one that runs beside the others": {"", 2 * fewTasks},
	} {
		var operations []string
		for i := range c.operations {
			operations = append(operations, apply("netprofile", profile(fmt.Sprint("p", i), 1)))
		}
		ctx, leave := context.WithCancel(t.Context())
		asked := &leaving{Type: profiles, leave: leave}
		b.api.types["netprofile"] = asked
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", rest.ApplyPath+c.query, strings.NewReader(body(operations)))
		r.Header.Set("Accept", fault.ProblemType)
		b.api.ServeHTTP(w, r.WithContext(ctx))
		if asked.created != 2 || w.Code != 503 || !strings.Contains(w.Body.String(), "apply: given up: context canceled") {
			t.Errorf("%s: its client left at the second of %d operations, %d were carried out: %d %s", name, c.operations, asked.created, w.Code, w.Body)
		}
		b.same("the store after "+name, storetest.Dump(t, b.db), before)
	}
}
