package rights

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/netplugin/netmaster/identity"
)

// The table again, in a readable form: r for read, c for change, in the own tenant (blue) and in a foreign one
// (red), or in the cluster.
func TestRolesAllowWhatTheyAreFor(t *testing.T) {
	want := map[string]string{
		"viewer of blue":       "public rc, known rc, objects r-, tenants r-, run time r-",
		"viewer":               "public rc, known rc, objects rr, tenants rr, run time rr",
		"tenant-admin of blue": "public rc, known rc, objects rc-, tenants r-, run time rc-",
		"operator":             "public rc, known rc, objects rcrc, tenants rcrc, cluster rc, run time rcrc, operations rc, metrics r",
		"admin":                "public rc, known rc, objects rcrc, tenants rcrc, cluster rc, run time rcrc, operations rc, access rc, agents rc, metrics r",
		"metrics":              "public rc, known rc, metrics r",
		"node":                 "public rc, known rc, agents rc",
		"no role":              "public rc, known rc",
	}
	sets := []Set{{{Viewer, "blue"}}, {{Viewer, Everywhere}}, {{TenantAdmin, "blue"}}, {{Operator, Everywhere}}, {{Admin, Everywhere}},
		{{Metrics, Everywhere}}, With(identity.Identity{Kind: identity.Node, Name: "h"}), {}}
	for _, s := range sets {
		var all []string
		for area := range areas {
			letters := func(tenant string) (text string) {
				for verb, letter := range map[Verb]string{Read: "r", Change: "c"} {
					if s.May(verb, area, tenant) {
						text += letter
					}
				}
				if text == "cr" {
					return "rc"
				}
				return text
			}
			text := letters("blue")
			if area.OfTenants() && text != "" {
				foreign := letters("red")
				if foreign == "" {
					foreign = "-"
				}
				text += foreign
			}
			if text != "" {
				all = append(all, area.String()+" "+text)
			}
		}
		if got := strings.Join(all, ", "); got != want[s.String()] {
			t.Errorf("%s:\n got %s\nwant %s", s, got, want[s.String()])
		}
	}
}

func TestWhoIsWho(t *testing.T) {
	for kind, want := range map[identity.Kind]string{identity.Root: "admin", identity.Master: "admin", identity.Node: "node",
		identity.User: "no role", identity.Token: "no role", identity.Nobody: "no role"} {
		if got := With(identity.Identity{Kind: kind}).String(); got != want {
			t.Errorf("%q has %s, want %s", kind, got, want)
		}
	}
}

func TestRightsAddUp(t *testing.T) {
	s := Set{{Viewer, "red"}, {TenantAdmin, "blue"}, {Viewer, "blue"}}
	if read, all := s.Tenants(Read, Objects); all || !slices.Equal(read, []string{"blue", "red"}) {
		t.Errorf("reads %v, %v", read, all)
	}
	if changed, all := s.Tenants(Change, Objects); all || !slices.Equal(changed, []string{"blue"}) {
		t.Errorf("changes %v, %v", changed, all)
	}
	if names, all := append(s, Grant{Viewer, Everywhere}).Tenants(Read, RunTime); !all || names != nil {
		t.Errorf("reads %v, %v", names, all)
	}
	if names, all := s.Tenants(Read, Cluster); all || names != nil {
		t.Errorf("the cluster in %v, %v", names, all)
	}
	if s.May(Read, Objects, "") || s.May(Read, Objects, Everywhere) || s.May(Change, Objects, "red") {
		t.Error("two tenants are all of them, or to read is to change")
	}
}

func TestGrantsThatCannotBeGiven(t *testing.T) {
	for grant, ok := range map[Grant]bool{
		{Viewer, "blue"}: true, {Viewer, Everywhere}: true, {TenantAdmin, "blue"}: true, {TenantAdmin, Everywhere}: true, {Operator, Everywhere}: true,
		{Admin, Everywhere}: true, {Metrics, Everywhere}: true,
		{Viewer, ""}: false, {Operator, "blue"}: false, {Admin, "blue"}: false, {Admin, ""}: false, {nodeRole, Everywhere}: false, {"master", Everywhere}: false,
		{"", Everywhere}: false, {"Admin", Everywhere}: false,
	} {
		if grant.Valid() != ok {
			t.Errorf("%+v: %v", grant, !ok)
		}
	}
}

func TestWhoGivesRoles(t *testing.T) {
	for _, c := range []struct {
		set  Set
		may  []Grant
		none []Grant
	}{
		{Set{{Admin, Everywhere}}, []Grant{{Admin, Everywhere}, {Viewer, "red"}}, nil},
		{Set{{TenantAdmin, "blue"}}, []Grant{{Viewer, "blue"}, {TenantAdmin, "blue"}},
			[]Grant{{Viewer, "red"}, {TenantAdmin, Everywhere}, {Viewer, Everywhere}, {Operator, Everywhere}, {Operator, "blue"}, {Admin, Everywhere}}},
		{Set{{TenantAdmin, Everywhere}, {Viewer, "blue"}, {Operator, Everywhere}}, nil, []Grant{{Viewer, "blue"}, {Viewer, Everywhere}, {Admin, Everywhere}}},
	} {
		for _, g := range c.may {
			if !c.set.MayGrant(g) {
				t.Errorf("%s may not give %+v", c.set, g)
			}
		}
		for _, g := range c.none {
			if c.set.MayGrant(g) {
				t.Errorf("%s may give %+v", c.set, g)
			}
		}
	}
}

func ExampleSet_String() {
	fmt.Println(Set{{Viewer, "blue"}, {Operator, Everywhere}})
	// Output: viewer of blue, operator
}
