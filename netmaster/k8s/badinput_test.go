package k8s

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// Services that the API server accepts, or accepted in older versions: of each, as much as possible is served, and
// the rest is left out.
func TestOddServicesAreUnderstoodAsFarAsTheyCanBe(t *testing.T) {
	if _, served := serviceRecord(nil); served {
		t.Error("no service is served")
	}
	for name, c := range map[string]struct {
		odd  func(*corev1.Service)
		want string // addresses, ports, source ranges, affinity; empty: not served
	}{
		"nothing at all":               {func(s *corev1.Service) { s.Spec = corev1.ServiceSpec{} }, ""},
		"no address yet":               {func(s *corev1.Service) { s.Spec.ClusterIP = "" }, ""},
		"headless":                     {func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} }, ""},
		"a name elsewhere":             {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, ""},
		"of another proxy":             {func(s *corev1.Service) { s.Labels = map[string]string{proxyLabel: ""} }, ""},
		"without ports":                {func(s *corev1.Service) { s.Spec.Ports = nil }, "[10.96.0.7] [] [] 0"},
		"leading zeros":                {func(s *corev1.Service) { s.Spec.ClusterIP = "010.096.000.07" }, "[10.96.0.7] [{ TCP 80 0}] [] 0"},
		"an address twice":             {func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.96.0.7", "10.96.0.7"} }, "[10.96.0.7] [{ TCP 80 0}] [] 0"},
		"an address of IPv4 as IPv6":   {func(s *corev1.Service) { s.Spec.ClusterIP = "::ffff:10.96.0.7" }, "[10.96.0.7] [{ TCP 80 0}] [] 0"},
		"external addresses of nobody": {func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"", "web", "1.2.3", "300.1.1.1"} }, "[10.96.0.7] [{ TCP 80 0}] [] 0"},
		"ranges of nobody": {func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"", "10.0.0.0", "10.0.0.0/33", " 010.1.2.3/8"}
		}, "[10.96.0.7] [{ TCP 80 0}] [10.0.0.0/8] 0"},
		"a range of IPv4 as IPv6": {func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"::ffff:10.0.0.0/104", "::ffff:10.0.0.0/90"}
		}, "[10.96.0.7] [{ TCP 80 0}] [10.0.0.0/8] 0"},
		"nothing but ranges of nobody": {func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"::ffff:10.0.0.0/90"} }, "[10.96.0.7] [{ TCP 80 0}] [0.0.0.0/32] 0"},
		"affinity without a time": {func(s *corev1.Service) {
			s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = corev1.ServiceAffinityClientIP, &corev1.SessionAffinityConfig{}
		}, "[10.96.0.7] [{ TCP 80 0}] [] 10800"},
	} {
		s := &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}}}}
		c.odd(s)
		got, served := serviceRecord(s)
		if text := fmt.Sprint(got.Addresses, got.Ports, got.SourceRanges, got.Affinity); served != (c.want != "") || served && text != c.want {
			t.Errorf("%s: %s, served %v; want %q", name, text, served, c.want)
		}
	}
}

// An endpoint slice has no field that is required here.
func TestOddSlicesAreUnderstoodAsFarAsTheyCanBe(t *testing.T) {
	web, dns, number, zero, large := "web", "dns", int32(8080), int32(0), int32(70000)
	port := discoveryv1.EndpointPort{Name: &web, Port: &number}
	at := func(addresses ...string) discoveryv1.Endpoint { return discoveryv1.Endpoint{Addresses: addresses} }
	for name, c := range map[string]struct {
		slice discoveryv1.EndpointSlice
		want  []string
	}{
		"nothing at all":          {discoveryv1.EndpointSlice{}, nil},
		"no ports":                {discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{at("10.1.1.1")}}, nil},
		"a port of nil":           {discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{}}, Endpoints: []discoveryv1.Endpoint{at("10.1.1.1")}}, nil},
		"a port without a number": {discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: &web}, {Name: &web, Port: &zero}, {Name: &web, Port: &large}}, Endpoints: []discoveryv1.Endpoint{at("10.1.1.1")}}, nil},
		"a port of another name":  {discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{{Name: &dns, Port: &number}}, Endpoints: []discoveryv1.Endpoint{at("10.1.1.1")}}, nil},
		"no addresses":            {discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{port}, Endpoints: []discoveryv1.Endpoint{{}, at(""), at("web.example.org")}}, nil},
		"names":                   {discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeFQDN, Ports: []discoveryv1.EndpointPort{port}, Endpoints: []discoveryv1.Endpoint{at("10.1.1.1")}}, nil},
		"only the first address":  {discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{port}, Endpoints: []discoveryv1.Endpoint{at("10.1.1.1", "10.1.1.2")}}, []string{"10.1.1.1:8080"}},
		"leading zeros":           {discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{port}, Endpoints: []discoveryv1.Endpoint{at("010.01.001.8"), at("10.1.1.8")}}, []string{"10.1.1.8:8080"}},
		"of many hosts":           {discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{port}, Endpoints: []discoveryv1.Endpoint{at("239.1.1.1"), at("0.0.0.0"), at("ff02::1"), at("::"), at("::ffff:224.0.0.1"), at("10.1.1.1")}}, []string{"10.1.1.1:8080"}},
		"a port twice":            {discoveryv1.EndpointSlice{Ports: []discoveryv1.EndpointPort{port, port}, Endpoints: []discoveryv1.Endpoint{at("10.1.1.1")}}, []string{"10.1.1.1:8080"}},
	} {
		var got []string
		all, _ := backends(mastercfg.K8sService{Ports: []mastercfg.K8sServicePort{{Name: web, Port: 80}}}, []any{&c.slice}, maxBackends)
		for _, b := range all {
			if got = append(got, b.Address.String()); !b.Ready || !b.Serving || b.Terminating || b.Node != "" {
				t.Errorf("%s: where nothing is said: %+v", name, b)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// The largest possible slice: a hundred ports, a thousand endpoints.
func TestTheLargestSliceIsUnderstood(t *testing.T) {
	var slice discoveryv1.EndpointSlice
	var service mastercfg.K8sService
	for i := range 100 {
		name, number := fmt.Sprint("p", i), int32(8000+i)
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number})
		service.Ports = append(service.Ports, mastercfg.K8sServicePort{Name: name, Port: uint16(i + 1)})
	}
	for i := range 1000 {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.1.%d.%d", i/250, i%250+1)}})
	}
	all, left := backends(service, []any{&slice}, maxBackends)
	if len(all) != 100*1000 || left != 0 {
		t.Errorf("%d backends, and %d others", len(all), left)
	}

	// If there are more, all ports get the same addresses, and most of them remain when one is removed.
	slice.Ports = slice.Ports[:5]
	some := func() map[netip.Addr]int {
		all, left := backends(service, []any{&slice}, 5*500)
		if len(all) != 5*500 || left != 5*len(slice.Endpoints)-len(all) {
			t.Errorf("%d backends, and %d others", len(all), left)
		}
		count := map[netip.Addr]int{}
		for _, one := range all {
			count[one.Address.Addr()]++
		}
		return count
	}
	before := some()
	slice.Endpoints = slice.Endpoints[1:]
	after, stay := some(), 0
	for address, ports := range after {
		if ports != 5 {
			t.Errorf("%s is behind %d ports", address, ports)
		}
		if before[address] > 0 {
			stay++
		}
	}
	if stay < len(before)-1 {
		t.Errorf("%d of %d addresses stay", stay, len(before))
	}
}

// Slices may arrive before their service, and remain after it.
func TestSlicesBeforeTheirServiceWait(t *testing.T) {
	w := newWorld(t)
	w.follow()
	w.slice("web-1", "web", "", 80, nil, "192.0.2.1")
	w.slice("odd", "", "", 80, nil, "192.0.2.9") // without a service
	w.service("other", nil, "=80")
	w.wantServices("default/shop/other")
	w.service("web", func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.96.0.8", nil }, "=80")
	w.wantServices("default/shop/other", "default/shop/web", "default/shop/web/-/192.0.2.1:80")
	w.service("web", nil, "=80", strings.Repeat("p", 63)+"=81")
	w.slice("web-2", "web", strings.Repeat("p", 63), 81, nil, "192.0.2.2")
	w.wantServices("default/shop/other", "default/shop/web", "default/shop/web/-/192.0.2.1:80", "default/shop/web/"+strings.Repeat("p", 63)+"/192.0.2.2:81")
}

// A backend at an address that no host can have is left out, and reported. Switches refuse a whole service with
// such a backend, so a record that another netmaster has written is deleted at once.
func TestABackendThatIsNoHostIsLeftOut(t *testing.T) {
	w := newWorld(t)
	odd := mastercfg.K8sBackend{Address: netip.MustParseAddrPort("239.1.1.2:80"), Ready: true, Serving: true}
	w.must(w.ledger.Update(t.Context(), func(tx *ledger.Tx) error {
		return ledger.Write(tx, mastercfg.K8sBackendKey("default", "shop", "web", "", odd.Address), odd)
	}))
	w.service("web", nil, "=80")
	w.slice("web-1", "web", "", 80, nil, "192.0.2.1", "239.1.1.1", "0.0.0.0")
	w.slice("web-2", "web", "", 80, func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }, "fd00::1", "ff05::1", "::")
	w.follow()
	w.wantServices("default/shop/web", "default/shop/web/-/192.0.2.1:80", "default/shop/web/-/[fd00::1]:80")
	w.toldThat("web", "AddressNotServed", "4 backends are not served, such as 0.0.0.0, which is not an address of one host")
}

// Present API servers reject any other text; an older one may have accepted it.
func TestABackendWithoutAnAddressIsTold(t *testing.T) {
	slice := func(addressType discoveryv1.AddressType, labels map[string]string, addresses ...string) any {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: labels}, AddressType: addressType}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
		}
		return s
	}
	const ipv4, fqdn = discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeFQDN
	for name, c := range map[string]struct {
		slice any
		want  []string
	}{
		"a text":        {slice(ipv4, nil, "web", "192.0.2.1", "db"), []string{"2 backends are not served, such as db, which is not an address of one host; let its EndpointSlices name others"}},
		"leading zeros": {slice(ipv4, nil, "192.0.2.01"), nil},
		"a name":        {slice(fqdn, nil, "www.example.org"), nil}, // the slice is reported
		"of others":     {slice(ipv4, map[string]string{headlessLabel: ""}, "239.1.1.1"), nil},
	} {
		if got := invalidAddresses([]any{c.slice}); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// toldThat waits for an event of a service with a text that begins so.
func (w *world) toldThat(service, reason, text string) {
	w.Helper()
	w.eventually(func() error {
		list, err := w.client.EventsV1().Events("shop").List(w.Context(), metav1.ListOptions{})
		var got []string
		if err == nil {
			for _, e := range list.Items {
				got = append(got, fmt.Sprint(e.Regarding.Name, " ", e.Reason, ": ", e.Note))
			}
			if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, service+" "+reason+": "+text) }) {
				err = fmt.Errorf("no event %s %s: %s; there are %q", service, reason, text, got)
			}
		}
		return err
	})
}

// A switch remembers a client for at most 65535 s.
func TestAnAffinityThatIsCutIsTold(t *testing.T) {
	w := newWorld(t)
	keeps := func(seconds int32) func(*corev1.Service) {
		return func(s *corev1.Service) {
			s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}
	}
	w.service("web", keeps(65536), "=80")
	w.service("day", keeps(65535), "=80")
	c := w.started()
	w.toldThat("web", "AffinityTooLong", "a client keeps its backend for 65535 s after its last connection, not for 65536: a switch remembers it no longer; "+
		"let sessionAffinityConfig.clientIP.timeoutSeconds ask for 65535 at most")
	w.wantTroubles(c, []string{}...) // a service that asks for a day is no trouble
	list, err := w.client.EventsV1().Events("shop").List(t.Context(), metav1.ListOptions{})
	w.must(list, err)
	for _, e := range list.Items {
		if e.Regarding.Name != "web" {
			t.Errorf("told of %s: %s", e.Regarding.Name, e.Note)
		}
	}
}

// Parts of a service that are not served are reported once: SCTP, and more backends than a node balances over.
func TestWhatOfAServiceIsNotServedIsTold(t *testing.T) {
	w := newWorld(t)
	w.follow()
	var many []string
	for i := range pipeline.MaxProviders + 1 {
		many = append(many, fmt.Sprintf("192.0.%d.%d", 2+i/250, i%250+1))
	}
	w.slice("web-1", "web", "", 80, nil, many[:pipeline.MaxProviders]...)
	w.service("web", nil, "=80")
	w.service("phone", func(s *corev1.Service) {
		s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.Ports[0].Protocol = "10.96.0.8", nil, corev1.ProtocolSCTP
	}, "sig=5060")
	w.toldThat("phone", "PortNotServed", "port 5060 is not served: SCTP")
	w.slice("web-1", "web", "", 80, nil, many...)
	w.toldThat("web", "ServiceTooLarge", fmt.Sprintf(`port "" has %d backends of IPv4`, pipeline.MaxProviders+1))
	if texts := tooLarge(make([]backend, pipeline.MaxProviders), pipeline.MaxProviders); texts != nil {
		t.Errorf("as many as can be: %q", texts)
	}
	const want = `port "" has 26 backends of IPv6, and a node uses 25 of them, each node others; use several services`
	if texts := tooLarge(make([]backend, 26), 25); len(texts) != 1 || texts[0] != want {
		t.Errorf("of a service with many ports: %q, want %q", texts, want)
	}
}
