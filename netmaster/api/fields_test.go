package api

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/internal/storetest"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/utils/fault"
)

// nonsense are texts that are refused in any field, as JSON strings, with a word of the refusal.
var nonsense = map[string]struct{ text, says string }{
	"64 KiB":              {`"` + strings.Repeat("x", 64<<10) + `"`, ""},
	"a control character": {`"a\u0007b"`, ""},
	"a NUL":               {`"a\u0000"`, ""},
	"no UTF-8":            {"\"a\xff\"", "not UTF-8"},
	"half a character":    {`"a\ud800"`, ""},
}

// mostSaid is the length limit of a refusal of nonsense.
const mostSaid = 600

// isNonsense sends a body with one invalid field: it expects a short refusal, and nothing stored.
func (b *bench) isNonsense(method, path, field string, body map[string]any, list bool) {
	b.Helper()
	before := storetest.Dump(b, b.db)
	for what, n := range nonsense {
		text := n.text
		if list {
			text = "[" + text + "]"
		}
		sent := withMember(b, body, strings.Split(field, "."), text)
		for _, accept := range []string{"", fault.ProblemType} {
			code, answer, _ := b.do(method, path, sent, "Accept", accept)
			if code < 400 || len(answer) > mostSaid || !strings.Contains(answer, n.says) {
				b.Errorf("%s with %s in %s: %d, %d bytes: %.300s", path, what, field, code, len(answer), answer)
			}
		}
	}
	if diff := cmp.Diff(before, storetest.Dump(b, b.db)); diff != "" {
		b.Errorf("%s, %s: something was stored: %.300s", path, field, diff)
	}
}

// withMember writes an object with one member replaced by a text that need not
// be JSON.
func withMember(t testing.TB, body map[string]any, member []string, text string) string {
	const mark = "here goes the nonsense"
	body = maps.Clone(body)
	if len(member) == 2 {
		inner, _ := body[member[0]].(map[string]any)
		inner = maps.Clone(inner)
		inner[member[1]] = mark
		body[member[0]] = inner
	} else {
		body[member[0]] = mark
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(string(data), `"`+mark+`"`, text, 1)
}

func TestNoFieldOfAnObjectTakesNonsense(t *testing.T) {
	for _, o := range lives {
		t.Run(o.path, func(t *testing.T) {
			b := surrounded(t, o.given)
			segment, _, _ := strings.Cut(o.path, "/")
			kind, _ := contivmodel.KindBySegment(segment)
			var body map[string]any
			if err := json.Unmarshal([]byte(o.create), &body); err != nil {
				t.Fatal(err)
			}
			for _, f := range kind.Fields {
				if f.Kind() != reflect.Int {
					b.isNonsense("POST", o.path, f.Name, body, f.Kind() == reflect.Slice)
				}
			}
		})
	}
}

func TestNoFieldOfAPluginRequestTakesNonsense(t *testing.T) {
	b := ready(t)
	b.ok("POST", "networks/blue:web", web)
	b.endpoint("blue", "web", "", "c1")
	for path, request := range map[string]any{
		mastercfg.AllocAddressPath:   mastercfg.AllocAddressRequest{NetworkID: "web.blue"},
		mastercfg.ReleaseAddressPath: mastercfg.ReleaseAddressRequest{NetworkID: "web.blue", IPv4Address: "10.7.0.9"},
		mastercfg.CreateEndpointPath: mastercfg.CreateEndpointRequest{TenantName: "blue", NetworkName: "web", ConfigEP: mastercfg.ConfigEP{Container: "c2"}},
		mastercfg.DeleteEndpointPath: mastercfg.DeleteEndpointRequest{TenantName: "blue", NetworkName: "web", EndpointID: "c1"},
		mastercfg.UpdateEndpointPath: mastercfg.UpdateEndpointRequest{Tenant: "blue", Network: "web", EndpointID: "c1", Event: "start", ContainerID: "k"},
	} {
		data, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		var body map[string]any
		if err := json.Unmarshal(data, &body); err != nil {
			t.Fatal(err)
		}
		for _, field := range texts(reflect.TypeOf(request), "") {
			b.isNonsense("POST", path, field, body, false)
		}
		if path == mastercfg.UpdateEndpointPath {
			body["Labels"] = map[string]any{}
			b.isNonsense("POST", path, "Labels.app", body, false)
		}
	}
}

// texts are the names of the text fields of a request, those inside others with a dot.
func texts(request reflect.Type, prefix string) (names []string) {
	for i := range request.NumField() {
		switch f := request.Field(i); f.Type.Kind() {
		case reflect.String:
			names = append(names, prefix+f.Name)
		case reflect.Struct:
			names = append(names, texts(f.Type, f.Name+".")...)
		}
	}
	return names
}
