package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/rest"
)

// of returns one of some texts.
func (w *foreignWorld) of(texts ...string) string { return texts[w.IntN(len(texts))] }

// name returns a name that the caller has, or guesses, or neither.
func (w *foreignWorld) name() string {
	return w.of("web", "front", "p", "1", "gold", "svc", "new1", "new2", "own-ep", "blue", "blue-ns", "z", "-", "h1", "default",
		guessed, guessed+"-net", guessed+"-grp", guessed+"-pol", guessed+"-prof", guessed+"-svc", guessed+"-ep", guessed+"-ns", guessed+"-con", guessed+"-app")
}

func (w *foreignWorld) tenant() string {
	return w.of("blue", "blue", "blue", "blue", "blue", guessed, "none", "", "blue.web", "*")
}

// address returns a subnet or an address, some of them those of others.
func (w *foreignWorld) address(six, subnet bool) string {
	switch {
	case six && subnet:
		return w.of("", "", "fd00:55::/64", "fd00:5::/64", "fd00:54::/63")
	case six:
		return w.of("fd00:55::1", "fd00:5::1", "")
	case subnet:
		return w.of("10.7.0.0/24", "10.66.0.0/16", "10.66.55.0/24", "172.16.0.0/16", "172.16.99.0/24", "203.0.113.0/24", "203.0.113.0/25", "192.0.2.0/24", "10.9.0.0/24", "172.19.0.0/24")
	}
	return w.of("", "", "10.7.0.9", "10.66.55.1", "203.0.113.55", "10.7.0.20-10.7.0.29")
}

// value returns a value for a field of an object: mostly one with which it can be made.
func (w *foreignWorld) value(kind contivmodel.Kind, f contivmodel.Field) any {
	likely := w.IntN(4) > 0
	_, meaning := f.Pattern()
	switch {
	case f.Name == "pktTag": // those of blue, of others, of nobody
		return []int{0, 0, 0, 100, 101, 102, 103, 105, 107, 200, 903, 905, 907, 5000}[w.IntN(14)]
	case f.Kind() == reflect.Int:
		return []int{0, 1, 80, 63, 30055, 30077, 99999}[w.IntN(7)]
	case f.Name == "tenantName" && likely:
		return "blue"
	case f.Name == "tenantName":
		return w.tenant()
	case len(f.OneOf) > 0:
		return w.of(f.OneOf...)
	case f.Name == "externalIps":
		return []string{w.of("203.0.113.55", "203.0.113.88")}
	case f.Name == "nodePorts":
		return []string{w.of("30055", "30077", "30099") + ":80:tcp"}
	case f.Name == "ports":
		return []string{"80:80:TCP"}
	case f.Name == "selectors":
		return []string{w.of("app=a", "app=b")}
	case f.Name == "bandwidth":
		return "20 Mbps"
	case f.Name == "policies" || f.Name == "endpointGroups" || f.Name == "extContractsGrps":
		return []string{w.of("p", "front", "new1", guessed+"-pol", guessed+"-grp", guessed+"-con")}
	case f.Kind() == reflect.Slice:
		return []string{w.name()}
	case strings.Contains(meaning, "IPv4") || strings.Contains(meaning, "IPv6") || strings.Contains(meaning, "address"):
		return w.address(strings.Contains(strings.ToLower(f.Name), "6"), strings.Contains(f.Name, "ubnet"))
	case likely && f.Name == "networkName" && f.KeyPart == 0:
		return "web"
	case likely && f.Name == "policyName" && f.KeyPart == 2 && kind.Type == "rule":
		return "p"
	case likely && f.KeyPart > 0:
		return w.of("new1", "new2", "new3")
	}
	return w.name()
}

// object returns an object of a kind with random fields, and its key.
func (w *foreignWorld) object(kind contivmodel.Kind) (object map[string]any, key string) {
	object = map[string]any{}
	var parts []string
	for _, f := range kind.Fields {
		if f.KeyPart > 0 || f.Required || f.Name == "subnet" || f.Name == "pktTag" || w.IntN(8) == 0 {
			object[f.Name] = w.value(kind, f)
		}
	}
	for _, f := range kind.KeyFields() {
		parts = append(parts, fmt.Sprint(object[f.Name]))
	}
	return object, strings.Join(parts, ":")
}

// kind returns a kind: often one of those that meet what other tenants have.
func (w *foreignWorld) kind() contivmodel.Kind {
	all := contivmodel.Kinds()
	if w.IntN(3) == 0 {
		kind, _ := contivmodel.KindByType(w.of("network", "network", "serviceLB", "endpointGroup"))
		return kind
	}
	return all[w.IntN(len(all))]
}

// body returns a body for a route that is not about objects.
func (w *foreignWorld) body() any {
	object, _ := w.object(w.kind())
	values := map[string]any{
		"principalName": w.of("someone", guessed, "bea"), "local": w.IntN(2) == 0, "role": w.of("ops", "viewer", "tenant-admin", "operator", "admin", "metrics", ""), "tenantName": w.tenant(),
		"name": w.name(), "tenants": []string{w.tenant()}, "username": w.of("ann", "vic", guessed), "password": "wrong-password-1", "token": "CT1.x.y.z", "host": w.of("h1", "h2"),
		"ConfigEP": map[string]any{"Container": w.name(), "Host": "h1"}, "NetworkName": w.name(), "EndpointID": w.name(), "NetworkID": w.of("web.blue", guessed+"-net."+guessed),
		"code": "x", "first_name": "x", "disable": w.IntN(2) == 0,
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if w.IntN(3) > 0 {
			object[name] = values[name]
		}
	}
	return object
}

// operations returns the body of an apply.
func (w *foreignWorld) operations() any {
	all := []map[string]any{}
	for range 1 + w.IntN(4) {
		kind := w.kind()
		object, key := w.object(kind)
		o := map[string]any{"op": w.of("apply", "apply", "create", "delete"), "type": kind.Type}
		if o["op"] == "delete" {
			o["key"], o["ignoreNotFound"] = key, w.IntN(2) == 0
		} else {
			o["object"] = object
		}
		all = append(all, o)
	}
	return map[string]any{"operations": all}
}

var variable = regexp.MustCompile(`\{([a-z]+)(?::([^}]*))?\}`)

// request draws a request.
func (w *foreignWorld) request() (method, path, body string) {
	route := w.route[w.IntN(len(w.route))]
	if often := w.of("/api/v1/{segment}/{key}", "/api/v1/{segment}/{key}", "/api/v1/{segment}/{key}", rest.ApplyPath, verdictPath, inspectRoot+contivmodel.NetworkPolicySegment+"/{key}"); w.IntN(2) == 0 {
		route = w.route[slices.IndexFunc(w.route, func(r rest.Route) bool { return r.Path == often })]
	}
	kind := w.kind()
	object, key := w.object(kind)
	var sent any = object
	if !strings.Contains(route.Path, "{segment") {
		sent, key = w.body(), w.of(w.name(), w.tenant()+":"+w.name(), w.name()+":p", "blue:p", "blue:web")
	}
	switch {
	case route.Path == rest.ApplyPath:
		sent = w.operations()
	case strings.Contains(route.Path, contivmodel.NetworkPolicySegment):
		key = w.of("blue-ns:p", guessed+"-ns:p", "blue-ns:none")
	}
	path = variable.ReplaceAllStringFunc(route.Path, func(v string) string {
		part := variable.FindStringSubmatch(v)
		switch {
		case part[1] == "segment" && part[2] == "":
			return kind.Segment
		case part[2] != "":
			return w.of(strings.Split(part[2], "|")...)
		case part[1] == "key":
			return url.PathEscape(key)
		case part[1] == "tenant":
			return url.PathEscape(w.tenant())
		case part[1] == "id" && strings.HasPrefix(route.Path, "/service/"):
			return url.PathEscape(w.of("svc:blue", guessed+"-svc:"+guessed, w.name()+":"+w.tenant()))
		}
		return url.PathEscape(w.name())
	})
	values := map[string]string{"tenant": w.tenant(), "dryRun": w.of("true", "false", "false", "x"), "protocol": w.of("tcp", "icmp"), "port": w.of("80", "30055"),
		"from": w.of(w.name(), "own-ep"), "to": w.of(w.name(), "own-ep", "203.0.113.55", "10.66.55.1"), "source": w.of("", "10.66.55.1"), "revision": "1"}
	query := url.Values{}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		isAbout := slices.Contains([]string{"from", "to", "protocol", "port"}, name) && (route.Path == verdictPath || route.Path == tracePath)
		if draw := w.IntN(8); isAbout || draw == 0 {
			query.Set(name, values[name])
		}
	}
	text, err := json.Marshal(sent)
	if err != nil {
		w.Fatal(err)
	}
	return w.of("GET", "GET", "POST", "POST", "PUT", "DELETE", "PATCH"), path + "?" + query.Encode(), string(text)
}
