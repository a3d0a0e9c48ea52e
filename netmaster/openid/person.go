package openid

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// Person is a user who has logged in at a provider. The user name and those of groups have the prefix
// mastercfg.OpenIDPrefix.
type Person struct {
	Name   string
	Groups []string
}

// Limits for tokens.
const (
	longestName   = 128 // bytes of a user name
	longestGroup  = 256
	mostGroups    = 500
	clocksDiffer  = 10 * time.Minute // at most, between the provider and this machine
	emailClaim    = "email"
	verifiedClaim = "email_verified"
)

// read returns the user of a token with verified signature, issuer and audience.
func (p *Provider) read(token *oidc.IDToken, nonce string) (who Person, err error) {
	var claims map[string]json.RawMessage
	if err := token.Claims(&claims); err != nil {
		return who, err
	}
	if token.Nonce == "" || token.Nonce != nonce {
		return who, errors.New("the ID token was made for another login")
	}
	if party, err := text(claims, "azp"); err != nil || party != "" && party != p.config.ClientID {
		return who, fmt.Errorf("the ID token was made for the client %.100q", party)
	}
	if err := p.inTime(token, claims); err != nil {
		return who, err
	}
	if who.Name, err = p.name(claims); err != nil {
		return who, err
	}
	who.Groups, err = groups(claims, p.config.GroupsClaim)
	return who, err
}

// inTime returns an error for a token that was not issued just now. Clocks may differ a little.
func (p *Provider) inTime(token *oidc.IDToken, claims map[string]json.RawMessage) error {
	now := p.now()
	if ahead := token.IssuedAt.Sub(now); ahead.Abs() > clocksDiffer {
		return fmt.Errorf("the ID token is of %s, and it is %s: one of the clocks is wrong", token.IssuedAt.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if now.After(token.Expiry.Add(clocksDiffer)) {
		return fmt.Errorf("the ID token has expired at %s", token.Expiry.UTC().Format(time.RFC3339))
	}
	if raw := claims["nbf"]; raw != nil {
		var begins float64
		if json.Unmarshal(raw, &begins) != nil || begins > float64(now.Add(clocksDiffer).Unix()) {
			return errors.New("the ID token is not good yet")
		}
	}
	return nil
}

// name returns the user name from its claim. An e-mail address that the provider has not verified may belong to
// another user, and is an error.
func (p *Provider) name(claims map[string]json.RawMessage) (string, error) {
	name, err := text(claims, p.config.NameClaim)
	if err != nil || name == "" {
		return "", fmt.Errorf("the ID token has no name in the claim %s", p.config.NameClaim)
	}
	if p.config.NameClaim == emailClaim && string(claims[verifiedClaim]) != "true" && string(claims[verifiedClaim]) != `"true"` {
		return "", fmt.Errorf("the address %.100q is not verified", name)
	}
	if len(name) > longestName || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == utf8.RuneError }) {
		return "", fmt.Errorf("claim %s: the name %.100q has more than %d bytes, or other characters than can be seen", p.config.NameClaim, name, longestName)
	}
	return mastercfg.OpenIDPrefix + name, nil
}

// groups returns the groups of a claim: a list of strings, or one string. Without the claim there are none.
func groups(claims map[string]json.RawMessage, claim string) ([]string, error) {
	raw := claims[claim]
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	var names []string
	if json.Unmarshal(raw, &names) != nil {
		one, err := text(claims, claim)
		if err != nil {
			return nil, fmt.Errorf("claim %s: want a list of names of groups", claim)
		}
		names = []string{one}
	}
	if len(names) > mostGroups {
		return nil, fmt.Errorf("claim %s: %d groups, the limit is %d", claim, len(names), mostGroups)
	}
	var all []string
	for _, name := range names {
		if name == "" || len(name) > longestGroup {
			return nil, fmt.Errorf("claim %s: the group %.100q has not 1 to %d bytes", claim, name, longestGroup)
		}
		all = append(all, mastercfg.OpenIDPrefix+name)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// text returns a string claim; empty if it is missing.
func text(claims map[string]json.RawMessage, claim string) (s string, err error) {
	if raw := claims[claim]; raw != nil {
		err = json.Unmarshal(raw, &s)
	}
	return s, err
}
