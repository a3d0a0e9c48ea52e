package contivmodel

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/contiv/netplugin/utils/fault"
	"github.com/contiv/netplugin/utils/secret"
)

func encode(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestObjectsLookAsClientsKnowThem(t *testing.T) {
	web := &Network{Key: "blue:web", Encap: "vxlan", Gateway: "10.7.0.1", NetworkName: "web", NwType: "data", Subnet: "10.7.0.0/24", TenantName: "blue"}
	front := &EndpointGroup{TenantName: "blue", GroupName: "front"}
	web.LinkSets.EndpointGroups.Add(front)
	web.Links.Tenant = LinkTo(&Tenant{TenantName: "blue"})
	for _, c := range []struct {
		object any
		want   string
	}{
		{web, `{"key":"blue:web","encap":"vxlan","gateway":"10.7.0.1","networkName":"web",` +
			`"nwType":"data","subnet":"10.7.0.0/24","tenantName":"blue",` +
			`"link-sets":{"EndpointGroups":{"blue:front":{"type":"endpointGroup","key":"blue:front"}}},` +
			`"links":{"Tenant":{"type":"tenant","key":"blue"}}}`},
		{valid("tenant"), `{"key":"blue","tenantName":"blue","link-sets":{}}`},
		{valid("endpointGroup"), `{"key":"blue:front","groupName":"front","networkName":"web","tenantName":"blue",` +
			`"link-sets":{},"links":{"AppProfile":{},"NetProfile":{},"Network":{},"Tenant":{}}}`},
		{&Rule{Key: "blue:p1:1", TenantName: "blue", PolicyName: "p1", RuleID: "1", Direction: "in", Action: "allow",
			Priority: 1, FromIPAddress: "10.0.0.0/8", Port: 80, Protocol: "tcp"},
			`{"key":"blue:p1:1","action":"allow","direction":"in","fromIpAddress":"10.0.0.0/8","policyName":"p1","port":80,` +
				`"priority":1,"protocol":"tcp","ruleId":"1","tenantName":"blue","link-sets":{},"links":{"MatchEndpointGroup":{}}}`},
		{valid("global"), `{"key":"global","name":"global","pvtSubnet":"172.19.0.0/16","vlans":"1-4094","vxlans":"1-10000"}`},
		{&Netprofile{Key: "blue:slow", TenantName: "blue", ProfileName: "slow", DSCP: 10},
			`{"key":"blue:slow","DSCP":10,"profileName":"slow","tenantName":"blue","link-sets":{},"links":{"Tenant":{}}}`},
		{&Bgp{Key: "n1", Hostname: "n1", As: "1", NeighborAs: "2"}, `{"key":"n1","as":"1","hostname":"n1","neighbor-as":"2"}`},
		{NetworkInspect{Config: Network{Key: "blue:web"}, Oper: NetworkOper{PktTag: 3, ExternalPktTag: 9}},
			`{"Config":{"key":"blue:web","link-sets":{},"links":{"Tenant":{}}},"Oper":{"externalPktTag":9,"pktTag":3}}`},
		{ConfigInspect[Rule]{}, `{"Config":{"key":"","link-sets":{},"links":{"MatchEndpointGroup":{}}}}`},
		{EndpointInspect{Oper: EndpointOper{EndpointID: "e1", IPAddress: []string{"10.7.0.5", ""}}},
			`{"Oper":{"endpointID":"e1","ipAddress":["10.7.0.5",""]}}`},
		{EndpointInspect{}, `{"Oper":{}}`},
	} {
		if diff := cmp.Diff(c.want, encode(t, c.object)); diff != "" {
			t.Error(diff)
		}
	}
}

func decode(segment, body string) (Object, error) {
	k, _ := KindBySegment(segment)
	return k.Decode([]byte(body))
}

func TestDecodingIsAsForgivingAsClientsExpect(t *testing.T) {
	o, err := decode("networks", `{"TENANTNAME":"blue","networkname":"web","encap":"vlan","pkttag":7,"colour":"red","subnet":"10.0.0.0/8",
		"links":{"Tenant":{"type":"tenant","key":"other"}},"link-sets":{"EndpointGroups":{"x":{"type":"y","key":"z"}}}} trailing {`)
	if err != nil {
		t.Fatal(err)
	}
	want := &Network{TenantName: "blue", NetworkName: "web", Encap: "vlan", PktTag: 7, Subnet: "10.0.0.0/8", NwType: "data"}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
}

func TestDecodingSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ segment, body, text, field string }{
		{"networks", ``, "network: body is not JSON: EOF", ""},
		{"networks", `{"tenantName":`, "network: body is not JSON: unexpected EOF", ""},
		{"networks", `[]`, "network: a JSON object wanted, array given", ""},
		{"networks", `"web"`, "network: a JSON object wanted, string given", ""},
		{"networks", `{"pktTag":"7"}`, "network: field pktTag takes no string", "pktTag"},
		{"networks", `{"pktTag":7.5}`, "network: field pktTag takes no number 7.5", "pktTag"},
		{"networks", `{"subnet":7}`, "network: field subnet takes no number", "subnet"},
		{"endpointGroups", `{"policies":"p"}`, "endpointGroup: field policies takes no string", "policies"},
	} {
		_, err := decode(c.segment, c.body)
		if !fault.Is(err, fault.Malformed) || err.Error() != c.text || fault.As(err).Field != c.field {
			t.Errorf("%s: got %v about %q, want %q about %q", c.body, err, fault.As(err).Field, c.text, c.field)
		}
	}
}

// anObject draws an object with any values in its fields and no links.
func anObject(t *rapid.T) Object {
	k := rapid.SampledFrom(Kinds()).Draw(t, "kind")
	o := k.New()
	for _, f := range k.Fields {
		var value any
		switch f.Value(o).(type) {
		case string, secret.Text:
			value = rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, f.Name)
		case int:
			value = rapid.Int().Draw(t, f.Name)
		default:
			if items := rapid.SliceOf(rapid.String()).Draw(t, f.Name); len(items) > 0 {
				value = items
			} else {
				value = []string(nil)
			}
		}
		if err := f.Set(o, value); err != nil {
			t.Fatal(err)
		}
	}
	o.SetKey(o.ModelKey())
	return o
}

func TestDecodingUndoesEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anObject(t)
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		back, err := KindOf(o).Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		ApplyDefaults(o)
		if diff := cmp.Diff(o, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestRefusalsNameAFieldOfTheObject(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anObject(t)
		err := Validate(o)
		if err == nil {
			return
		}
		field := fault.As(err).Field
		if _, known := KindOf(o).Field(field); !known && field != "key" || !strings.HasPrefix(strings.ToLower(err.Error()), strings.ToLower(field)) && field != "key" {
			t.Fatalf("%v names field %q", err, field)
		}
	})
}

func TestLinkSetsTakeAndDropObjects(t *testing.T) {
	var s LinkSet
	s.Remove(valid("tenant")) // nothing there yet
	s.Add(valid("tenant"))
	s.Add(valid("policy"))
	s.Remove(valid("tenant"))
	if diff := cmp.Diff(LinkSet{"blue:p1": {Type: "policy", Key: "blue:p1"}}, s); diff != "" {
		t.Error(diff)
	}
}

func FuzzDecodeAndValidate(f *testing.F) {
	for _, k := range Kinds() {
		text, err := json.Marshal(valid(k.Type))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(k.Segment, text)
	}
	f.Add("networks", []byte(`{"ipv6Subnet":"1:/64","link-sets":null,"links":[]}`))
	f.Fuzz(func(t *testing.T, segment string, body []byte) {
		k, known := KindBySegment(segment)
		if !known {
			return
		}
		o, err := k.Decode(body)
		if err != nil {
			if !fault.Is(err, fault.Malformed) {
				t.Errorf("%q: %v", body, err)
			}
			return
		}
		o.SetKey(o.ModelKey())
		if err := Validate(o); err != nil && !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", body, err)
		}
	})
}
