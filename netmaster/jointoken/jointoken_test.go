package jointoken

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

var (
	now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	pin = strings.Repeat("0123abcd", 8)
)

func token(t testing.TB) Token {
	t.Helper()
	made, err := New(pin)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestATokenIsReadAsItIsShown(t *testing.T) {
	made := token(t)
	for _, text := range []string{made.Text(), "  " + made.Text() + "\n"} {
		if got, err := Parse(text); err != nil || got != made {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	if other := token(t); other.ID == made.ID || other.secret == made.secret {
		t.Error("two tokens have a part in common")
	}
}

func TestASecretIsNotPrinted(t *testing.T) {
	made := token(t)
	for _, shown := range []string{fmt.Sprint(made), fmt.Sprintf("%v %+v %#v %s", made, made, made, &made), made.Digest()} {
		if strings.Contains(shown, made.secret) {
			t.Errorf("shown: %s", shown)
		}
	}
}

func TestWhatIsNoToken(t *testing.T) {
	text := token(t).Text()
	for name, bad := range map[string]string{
		"none": "", "cut off": text[:len(text)-1], "longer": text + "0", "another version": "CT2" + text[3:], "parts": text + ".x",
		"upper case": strings.ToUpper(text), "a blank inside": text[:8] + " " + text[9:], "no secret": "CT1.aaaaaaaaaa.." + pin,
		"a mebibyte": strings.Repeat("a", 1<<20), "only dots": "...", "dots": strings.Repeat(".", 1<<16),
	} {
		_, err := Parse(bad)
		if !fault.Is(err, fault.Invalid) || len(err.Error()) > 200 || len(bad) > 20 && strings.Contains(err.Error(), bad[15:20]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhomATokenAdmits(t *testing.T) {
	made := token(t)
	record := mastercfg.JoinToken{ID: made.ID, Role: "node", Digest: made.Digest(), Host: "worker-*", Uses: 2, Created: now, Expires: now.Add(time.Hour)}
	for name, c := range map[string]struct {
		change func(*mastercfg.JoinToken, *Token)
		host   string
		again  bool
		at     time.Time
		says   string // empty: admitted
	}{
		"the first":                 {host: "worker-1", at: now},
		"the last moment":           {host: "worker-1", at: now.Add(time.Hour - 1)},
		"expired":                   {host: "worker-1", at: now.Add(time.Hour), says: "expired at"},
		"a clock behind":            {host: "worker-1", at: now.Add(-mastercfg.ClocksApart)},
		"made by a clock far ahead": {host: "worker-1", at: now.Add(-mastercfg.ClocksApart - 1), says: "set the clocks"},
		"another name":              {host: "master-1", at: now, says: `hosts named "worker-*"`},
		"used up":                   {host: "worker-1", at: now, change: func(r *mastercfg.JoinToken, _ *Token) { r.Used = 2 }, says: "used 2 times"},
		"used up by the same":       {host: "worker-1", at: now, again: true, change: func(r *mastercfg.JoinToken, _ *Token) { r.Used = 2 }},
		"for any number":            {host: "worker-1", at: now, change: func(r *mastercfg.JoinToken, _ *Token) { r.Uses, r.Used = 0, 1000 }},
		"another secret":            {host: "worker-1", at: now, change: func(_ *mastercfg.JoinToken, t *Token) { t.secret = strings.Repeat("a", secretDigits) }, says: "there is none"},
		"no digest in record":       {host: "worker-1", at: now, change: func(r *mastercfg.JoinToken, _ *Token) { r.Digest = "" }, says: "there is none"},
		"another secret, again": {host: "worker-1", at: now, again: true,
			change: func(_ *mastercfg.JoinToken, t *Token) { t.secret = strings.Repeat("a", secretDigits) }, says: "there is none"},
	} {
		record, shown := record, made
		if c.change != nil {
			c.change(&record, &shown)
		}
		err := Admit(record, shown, c.host, c.again, c.at)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.says != "" && (!fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), made.secret)):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatATokenCanBe(t *testing.T) {
	for name, c := range map[string]struct {
		record mastercfg.JoinToken
		life   time.Duration
		field  string // empty: it can
	}{
		"a node":             {mastercfg.JoinToken{Role: "node"}, DefaultLife, ""},
		"nodes of a pattern": {mastercfg.JoinToken{Role: "node", Host: "w-?.example", Tenants: []string{"blue"}, Uses: 3}, time.Minute, ""},
		"a netmaster":        {mastercfg.JoinToken{Role: "master"}, DefaultLife, ""},
		"no role":            {mastercfg.JoinToken{}, DefaultLife, "role"},
		"a user":             {mastercfg.JoinToken{Role: "user"}, DefaultLife, "role"},
		"for ever":           {mastercfg.JoinToken{Role: "node"}, 1 << 62, "ttl"},
		"not at all":         {mastercfg.JoinToken{Role: "node"}, 0, "ttl"},
		"negative uses":      {mastercfg.JoinToken{Role: "node", Uses: -1}, DefaultLife, "uses"},
		"a bad pattern":      {mastercfg.JoinToken{Role: "node", Host: "[a"}, DefaultLife, "host"},
		"a path":             {mastercfg.JoinToken{Role: "node", Host: "a/*"}, DefaultLife, "host"},
		"a bad tenant":       {mastercfg.JoinToken{Role: "node", Tenants: []string{"a:b"}}, DefaultLife, "tenants"},
		"a master's tenants": {mastercfg.JoinToken{Role: "master", Tenants: []string{"blue"}}, DefaultLife, "tenants"},
	} {
		err := Check(&c.record, c.life)
		if refused := fault.As(err); c.field == "" && err != nil || c.field != "" && (refused == nil || refused.Field != c.field || refused.Kind != fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(token(f).Text())
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := Parse(text); err == nil && got.Text() != strings.TrimSpace(text) {
			t.Errorf("%q is shown as %q", text, got.Text())
		}
	})
}
