package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
)

// expanded lists the ids of all expanded rules, with their peer group.
func expanded(b *bench) []string {
	b.Helper()
	var ids []string
	err := b.ledger.View(func(r ledger.Reader) error {
		rules, err := ledger.ReadAll[mastercfg.CfgPolicyRule](r, mastercfg.PolicyRulePrefix)
		for _, rule := range rules {
			ids = append(ids, rule.RuleID)
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	slices.Sort(ids)
	return ids
}

func withPolicy(t testing.TB) *bench {
	b := withGroup(t)
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:back", `{"tenantName":"blue","groupName":"back","networkName":"web"}`)
	return b
}

const (
	frontWithP = `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`
	front      = `{"tenantName":"blue","groupName":"front","networkName":"web"}`
	ruleTCP    = `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","action":"allow","protocol":"tcp","port":80,"fromEndpointGroup":"back"}`
)

func TestRulesFollowAttachAndDetach(t *testing.T) {
	b := withPolicy(t)
	b.ok("POST", "rules/blue:p:1", ruleTCP)
	if got := expanded(b); got != nil {
		t.Fatalf("without a group: %v", got)
	}
	b.ok("POST", "endpointGroups/blue:front", frontWithP)
	want := []string{"blue:front:blue:p:blue:p:1:inRx", "blue:front:blue:p:blue:p:1:inTx"}
	if diff := cmp.Diff(want, expanded(b)); diff != "" {
		t.Error(diff)
	}
	rule := record[mastercfg.CfgPolicyRule](b, mastercfg.PolicyRulePrefix+want[0])
	wantRule := mastercfg.CfgPolicyRule{RuleID: want[0], Priority: 1, SrcEndpointGroup: 2, DstEndpointGroup: 1, IPProtocol: 6, DstPort: 80, Action: "allow"}
	if diff := cmp.Diff(wantRule, rule); diff != "" {
		t.Error(diff)
	}
	binding := record[mastercfg.EpgPolicy](b, mastercfg.PolicyPrefix+"blue:front:blue:p")
	if diff := cmp.Diff(mastercfg.EpgPolicy{ID: "blue:front:blue:p", EpgPolicyKey: "blue:front:blue:p", EndpointGroupID: 1}, binding); diff != "" {
		t.Error(diff)
	}
	b.ok("POST", "rules/blue:p:2", `{"tenantName":"blue","policyName":"p","ruleId":"2","direction":"out","action":"deny","toNetwork":"web"}`)
	if got := record[mastercfg.CfgPolicyRule](b, mastercfg.PolicyRulePrefix+"blue:front:blue:p:blue:p:2:outTx"); got.DstIPAddr != "10.7.0.0/24" {
		t.Errorf("rule to a network: %+v", got)
	}
	b.ok("DELETE", "rules/blue:p:2", "")
	if diff := cmp.Diff(want, expanded(b)); diff != "" {
		t.Error(diff)
	}
	b.ok("POST", "endpointGroups/blue:front", front)
	if got := expanded(b); got != nil {
		t.Errorf("after detaching: %v", got)
	}
}

func TestARuleWhosePeerIsGoneMatchesNothingUntilItReturns(t *testing.T) {
	b := withPolicy(t)
	b.ok("POST", "endpointGroups/blue:front", frontWithP)
	b.ok("POST", "rules/blue:p:1", ruleTCP)
	b.ok("DELETE", "endpointGroups/blue:back", "")
	if got := expanded(b); got != nil {
		t.Fatalf("with the peer gone: %v", got)
	}
	// Another group gets the peer's old id; it is not the peer.
	b.ok("POST", "endpointGroups/blue:stranger", `{"tenantName":"blue","groupName":"stranger","networkName":"web"}`)
	if got := expanded(b); got != nil {
		t.Fatalf("a stranger with the peer's id is matched: %v", got)
	}
	b.ok("POST", "endpointGroups/blue:back", `{"tenantName":"blue","groupName":"back","networkName":"web"}`)
	got := record[mastercfg.CfgPolicyRule](b, mastercfg.PolicyRulePrefix+"blue:front:blue:p:blue:p:1:inRx")
	if got.SrcEndpointGroup != 3 {
		t.Errorf("the peer that returned is matched as %+v", got)
	}
	if back := b.ok("GET", "endpointGroups/blue:back", ""); !strings.Contains(back, `"MatchRules":{"blue:p:1"`) {
		t.Errorf("the peer that returned is not linked: %s", back)
	}
}

func TestAGroupMayNameItselfAsPeer(t *testing.T) {
	b := withPolicy(t)
	b.ok("POST", "endpointGroups/blue:front", frontWithP)
	b.ok("POST", "rules/blue:p:1", strings.Replace(ruleTCP, "back", "front", 1))
	got := record[mastercfg.CfgPolicyRule](b, mastercfg.PolicyRulePrefix+"blue:front:blue:p:blue:p:1:inRx")
	if got.SrcEndpointGroup != 1 || got.DstEndpointGroup != 1 {
		t.Errorf("%+v", got)
	}
	b.ok("DELETE", "endpointGroups/blue:front", "")
	if got := expanded(b); got != nil {
		t.Errorf("left behind: %v", got)
	}
}

func TestUpdateOfAGroupReturnsTheStoredObjectAndKeepsItsTag(t *testing.T) {
	b := withPolicy(t)
	tagged := strings.Replace(frontWithP, `"policies"`, `"cfgdTag":"new","policies"`, 1)
	if code, answer, _ := b.do("POST", "endpointGroups/blue:front", tagged, "If-Match", "*"); code != 500 || !strings.Contains(answer, "Cannot change the tag") {
		t.Errorf("a tag for who has seen the group: %d %s", code, answer)
	}
	got := b.ok("POST", "endpointGroups/blue:front", tagged)
	const want = `{"key":"blue:front","groupName":"front","networkName":"web","policies":["p"],"tenantName":"blue",` +
		`"link-sets":{"Policies":{"blue:p":{"type":"policy","key":"blue:p"}}},` +
		`"links":{"AppProfile":{},"NetProfile":{},"Network":{"type":"network","key":"blue:web"},"Tenant":{"type":"tenant","key":"blue"}}}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if stored := b.ok("GET", "endpointGroups/blue:front", ""); stored != got {
		t.Errorf("stored %s", stored)
	}
}

func TestLinksSentByClientsAreIgnored(t *testing.T) {
	b := ready(t)
	got := b.ok("POST", "tenants/red", `{"tenantName":"red","link-sets":{"Networks":{"red:x":{"type":"network","key":"red:x"}}}}`)
	if got != `{"key":"red","tenantName":"red","link-sets":{}}` {
		t.Errorf("stored %s", got)
	}
	b.ok("DELETE", "tenants/red", "")
}

func TestListsAreSorted(t *testing.T) {
	b := ready(t)
	for _, name := range []string{"zoe", "amy", "kim"} {
		b.ok("PUT", "tenants/"+name, `{"tenantName":"`+name+`"}`)
	}
	const want = `[{"key":"amy","tenantName":"amy","link-sets":{}},{"key":"blue","tenantName":"blue","link-sets":{}},` +
		`{"key":"kim","tenantName":"kim","link-sets":{}},{"key":"zoe","tenantName":"zoe","link-sets":{}}]`
	if got := b.ok("GET", "tenants", ""); got != want {
		t.Errorf("got %s", got)
	}
}

func TestARuleThatNamesANetworkOfBothFamiliesMeansBoth(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", with(web)(`,"ipv6Subnet":"2001:db8::/64"`))
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:front", frontWithP)
	for id, c := range map[string]struct {
		members, direction string
		want               [4]string // sources of both families, destinations of both
	}{
		"1": {`"direction":"in","fromNetwork":"web","protocol":"tcp","port":80`, "inRx", [4]string{"10.7.0.0/24", "2001:db8::/64"}},
		"2": {`"direction":"in","fromNetwork":"web","protocol":"tcp","port":81`, "inTx", [4]string{2: "10.7.0.0/24", 3: "2001:db8::/64"}},
		"3": {`"direction":"out","toNetwork":"web"`, "outTx", [4]string{2: "10.7.0.0/24", 3: "2001:db8::/64"}},
	} {
		b.ok("POST", "rules/blue:p:"+id, `{"tenantName":"blue","policyName":"p","ruleId":"`+id+`","action":"deny",`+c.members+`}`)
		r := record[mastercfg.CfgPolicyRule](b, mastercfg.PolicyRulePrefix+"blue:front:blue:p:blue:p:"+id+":"+c.direction)
		if got := [4]string{r.SrcIPAddr, r.SrcIPv6Addr, r.DstIPAddr, r.DstIPv6Addr}; got != c.want {
			t.Errorf("%s: %q, want %q", c.members, got, c.want)
		}
	}
}

func TestARuleMayNameIPv6AndOneAddressAsAPrefix(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", with(web)(`,"ipv6Subnet":"2001:db8::/64"`))
	b.ok("POST", "networks/blue:old", with(web)(`,"networkName":"old","subnet":"10.9.0.0/24","gateway":""`))
	b.ok("POST", "policys/blue:p", `{"tenantName":"blue","policyName":"p"}`)
	b.ok("POST", "endpointGroups/blue:front", `{"tenantName":"blue","groupName":"front","networkName":"web","policies":["p"]}`)
	ep := b.endpoint("blue", "web", "front", "c1")
	rule := func(id, members string) (path, body string) {
		return "rules/blue:p:" + id, `{"tenantName":"blue","policyName":"p","ruleId":"` + id + `","action":"deny",` + members + `}`
	}
	stored := func(id, direction string) [2]string {
		r := record[mastercfg.CfgPolicyRule](b, mastercfg.PolicyRulePrefix+"blue:front:blue:p:blue:p:"+id+":"+direction)
		return [2]string{r.SrcIPAddr, r.DstIPAddr}
	}
	for id, c := range map[string]struct {
		members, direction string
		want               [2]string
	}{
		"1": {`"direction":"in","fromIpAddress":"10.1.1.1/32"`, "inRx", [2]string{"10.1.1.1/32", ""}},
		"2": {`"direction":"in","fromIpAddress":"2001:db8:1::7"`, "inRx", [2]string{"2001:db8:1::7", ""}},
		"3": {`"direction":"out","toIpAddress":"2001:db8:1::/64"`, "outTx", [2]string{"", "2001:db8:1::/64"}},
		"4": {`"direction":"in","fromIpAddress":"2001:db8:1::7/128","toIpAddress":"` + ep.IPv6Address + `"`, "inRx", [2]string{"2001:db8:1::7/128", ep.IPv6Address}},
		"5": {`"direction":"in","fromNetwork":"web","toIpAddress":"` + ep.IPv6Address + `/128"`, "inRx", [2]string{"2001:db8::/64", ep.IPv6Address + "/128"}},
		"6": {`"direction":"in","fromNetwork":"web","toIpAddress":"` + ep.IPAddress + `/32"`, "inRx", [2]string{"10.7.0.0/24", ep.IPAddress + "/32"}},
	} {
		path, body := rule(id, c.members)
		b.ok("POST", path, body)
		if got := stored(id, c.direction); got != c.want {
			t.Errorf("%s: %q, want %q", c.members, got, c.want)
		}
	}
	for members, want := range map[string]string{
		`"direction":"in","fromIpAddress":"10.1.1.1","toIpAddress":"` + ep.IPv6Address + `"`: "fromIpAddress 10.1.1.1 and toIpAddress " + ep.IPv6Address + " are of different families",
		`"direction":"in","toIpAddress":"2001:db8::/64"`:                                     "failed to configure 2001:db8::/64, ip address is not in epg front:blue",
		`"direction":"in","fromNetwork":"old","toIpAddress":"` + ep.IPv6Address + `"`:        "from Network old has no IPv6, the other side is " + ep.IPv6Address,
	} {
		path, body := rule("9", members)
		if code, answer, _ := b.do("POST", path, body); code != 500 || answer != want {
			t.Errorf("%s: %d %s, want %s", members, code, answer, want)
		}
	}
}

// A rule of an earlier version, in the store or an export, may name a port with a protocol that has none. It
// stays, with its meaning; no new one is accepted.
func TestARuleWithAPortThatItsProtocolHasNotIsRefusedAndOneOfBeforeStays(t *testing.T) {
	b := withPolicy(t)
	b.ok("POST", "endpointGroups/blue:front", frontWithP)
	const fault = "port 80: protocol any has no ports: want tcp, udp or 132 (SCTP) for the rule, or no port"
	old := strings.Replace(ruleTCP, `"protocol":"tcp",`, "", 1)
	b.refused("POST", "rules/blue:p:1", old, fault, 400, "invalid")
	b.refused("POST", "rules/blue:p:1", strings.Replace(ruleTCP, "tcp", "47", 1), strings.Replace(fault, "any", "47", 1), 400, "invalid")
	b.refusedApply(400, "invalid", []string{"rule blue:p:1: " + fault}, apply("rule", old))

	b.ok("POST", "rules/blue:p:1", strings.Replace(ruleTCP, `"port":80,`, "", 1))
	if _, err := b.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		stored, err := master.Get[contivmodel.Rule](tx, "blue:p:1", nil)
		if err != nil {
			return err
		}
		stored.Protocol, stored.Port = "", 80
		if err := master.Put(tx, stored); err != nil {
			return err
		}
		return master.RewriteRules(tx)
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"blue:front:blue:p:blue:p:1:inRx"}, expanded(b)); diff != "" {
		t.Error(diff)
	}
	if stored := b.ok("GET", "rules/blue:p:1", ""); !strings.Contains(stored, `"port":80`) || strings.Contains(stored, "protocol") {
		t.Errorf("stored %s", stored)
	}
	b.same("what is there", b.applying("", apply("rule", old)), []string{"unchanged rule blue:p:1"})
	b.ok("DELETE", "rules/blue:p:1", "")
	b.ok("POST", "rules/blue:p:1", strings.Replace(ruleTCP, "tcp", "132", 1))
}

// A group does not get a part of a policy: a rule that cannot be read is named, and the group stays as it was.
func TestAPolicyWithARuleThatCannotBeReadIsNotAttached(t *testing.T) {
	b := withPolicy(t)
	const rule, group = "rules/blue:p:1", "endpointGroups/blue:front"
	const sound = `{"tenantName":"blue","policyName":"p","ruleId":"1","direction":"in","protocol":"tcp","port":80,"action":"deny"}`
	b.ok("POST", rule, sound)
	b.ok("POST", "rules/blue:p:2", strings.Replace(sound, `"ruleId":"1"`, `"ruleId":"2"`, 1))
	b.store(mastercfg.ModelKey("rule", "blue:p:1"), `{`)
	for _, what := range []string{frontWithP, strings.NewReplacer("front", "new").Replace(frontWithP)} {
		at := group
		if what != frontWithP { // a group that is new
			at = "endpointGroups/blue:new"
		}
		code, answer, _ := b.do("POST", at, what)
		if code != 500 || !strings.Contains(answer, "its rule blue:p:1 cannot be read") {
			t.Errorf("%s: %d %s", at, code, answer)
		}
		if got := expanded(b); len(got) != 0 {
			t.Errorf("%s has %q", at, got)
		}
	}
	b.store(mastercfg.ModelKey("rule", "blue:p:1"), sound)
	b.ok("POST", group, frontWithP)
	if got := expanded(b); len(got) != 4 {
		t.Errorf("with two rules, each for both directions: %q", got)
	}
}
