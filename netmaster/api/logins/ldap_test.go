package logins

import (
	"slices"
	"testing"
)

// A directory says in which of its own groups a user is, not in which of an OpenID Connect provider.
func TestADirectoryNamesNoGroupsOfAProvider(t *testing.T) {
	got := exceptOfProvider([]string{"cn=net,dc=example", "oidc:admins", "OIDC:cn=net,dc=example", "oidc:", "oidc"})
	if want := []string{"cn=net,dc=example", "oidc"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
