package mastercfg

import (
	"strings"
	"testing"

	"github.com/contiv/netplugin/utils/fault"
)

func TestOnlyMembersThatSpeakTLSAreAsked(t *testing.T) {
	for name, c := range map[string]struct {
		request AddMemberRequest
		field   string // that is refused; empty: none
	}{
		"good":          {AddMemberRequest{"m2", "https://192.0.2.2:2380"}, ""},
		"IPv6":          {AddMemberRequest{"m2", "https://[2001:db8::2]:2380"}, ""},
		"no name":       {AddMemberRequest{"", "https://192.0.2.2:2380"}, "name"},
		"two names":     {AddMemberRequest{"m2,m3", "https://192.0.2.2:2380"}, "name"},
		"long name":     {AddMemberRequest{strings.Repeat("m", 256), "https://192.0.2.2:2380"}, "name"},
		"plain":         {AddMemberRequest{"m2", "http://192.0.2.2:2380"}, "peerURL"},
		"no port":       {AddMemberRequest{"m2", "https://192.0.2.2"}, "peerURL"},
		"with a path":   {AddMemberRequest{"m2", "https://192.0.2.2:2380/x"}, "peerURL"},
		"two addresses": {AddMemberRequest{"m2", "https://192.0.2.2:2380,https://192.0.2.3:2380"}, "peerURL"},
		"nothing":       {AddMemberRequest{"m2", ""}, "peerURL"},
		"endless":       {AddMemberRequest{"m2", "https://" + strings.Repeat("a", 2000) + ":2380"}, "peerURL"},
	} {
		err := c.request.Check()
		if (err == nil) != (c.field == "") || err != nil && (!fault.Is(err, fault.Invalid) || fault.As(err).Field != c.field) {
			t.Errorf("%s: %v; want field %q refused", name, err, c.field)
		}
	}
}
