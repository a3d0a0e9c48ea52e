package api

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/logins"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// What others have is planted under names that no request has: an answer with one of them tells of another tenant.
// What may be guessed is planted in one of two equal clusters: an answer that differs between them tells that it is
// there. Requests are drawn over all routes, by who has rights in tenant blue only.

// foreignSeeds is how many pairs of clusters are compared, foreignRequests how many requests each gets.
const (
	foreignSeeds    = 2
	foreignRequests = 3000
)

// differs are the parts of an answer that two equal clusters do not share.
var differs = regexp.MustCompile(`"(revision|ifRevision)":\d+|"AuthzUUID":"[^"]*"|revision \d+|"(made|created|expires|ends|begins)":"[^"]*"|"Id":"[^"]*"`)

// answer sends a request and returns it with its answer, in a form that is the same for equal clusters.
func (w *foreignWorld) answer(number int) (asked, answer string) {
	w.now.Add(int64(time.Second)) // so that no limit is exceeded
	who := w.IntN(len(foreignAsks))
	method, path, body := w.request()
	problem := w.IntN(2) == 0
	asked = fmt.Sprintf("%d: %s: %s %s %s", number, foreignAsks[who], method, path, body)
	if strings.HasSuffix(strings.SplitN(path, "?", 2)[0], "/logout") {
		return asked, "" // would end the session
	}
	r := httptest.NewRequest(method, "https://m1"+path, strings.NewReader(body))
	r.TLS = new(tls.ConnectionState)
	r.Header.Set(contivmodel.RequestIDHeader, "one")
	if problem {
		r.Header.Set("Accept", fault.ProblemType)
	}
	if w.asks[who] != "" {
		r.Header.Set(auth.TokenHeader, w.asks[who])
	}
	got := httptest.NewRecorder()
	w.api.ServeHTTP(got, r)
	header := got.Header().Clone()
	for _, name := range []string{"ETag", mastercfg.RevisionHeader, "Contiv-Revision", "Content-Length"} {
		header.Del(name)
	}
	if path == logins.WhoAmIPath && got.Code == http.StatusOK {
		return asked, got.Body.String()
	}
	return asked, fmt.Sprintf("%d %v %s", got.Code, header, differs.ReplaceAllString(got.Body.String(), "$1"))
}

// run sends the requests of the seed, and fails if an answer or a watch has a planted name.
func (w *foreignWorld) run() (asked, answers []string) {
	var watches []*watching
	for _, kind := range contivmodel.Kinds() {
		if kind.OfTenant() && w.api.types[kind.Type] != nil {
			watches = append(watches, w.watchAs(kind.Segment+"/?watch=true", w.asks[0]))
		}
	}
	for i := range foreignRequests {
		q, a := w.answer(i)
		asked, answers = append(asked, q), append(answers, a)
		w.tellsNothing(q, a)
	}
	for _, heard := range watches {
		heard.cancel()
		for line := range heard.lines {
			w.tellsNothing("a watch", line)
		}
	}
	return asked, answers
}

func (w *foreignWorld) tellsNothing(asked, answer string) {
	w.Helper()
	for _, planted := range []string{plantedName, plantedSubnet, "fd00:77:", "172.16.77.", "203.0.113.77"} {
		if strings.Contains(answer, planted) {
			w.Errorf("%s\nthe answer has %s: %.1500s", asked, planted, answer)
		}
	}
}

func TestNoAnswerTellsWhatOthersHave(t *testing.T) {
	for seed := range uint64(foreignSeeds) {
		var asked, first, second []string
		t.Run(fmt.Sprintf("%d/%s", seed, guessed), func(t *testing.T) { asked, first = newForeignWorld(t, guessed, seed).run() })
		t.Run(fmt.Sprintf("%d/%s", seed, missed), func(t *testing.T) { _, second = newForeignWorld(t, missed, seed).run() })
		good, told := 0, 0
		for i := range min(len(first), len(second)) {
			if strings.HasPrefix(first[i], "200") {
				good++
			}
			if first[i] != second[i] && told < 10 {
				told++
				t.Errorf("seed %d: the answer depends on what another tenant has:\n%s\n%.1500s\n%.1500s", seed, asked[i], first[i], second[i])
			}
		}
		if t.Logf("seed %d: %d of %d requests succeed", seed, good, len(first)); good < 60 || len(first) != foreignRequests || len(second) != foreignRequests {
			t.Errorf("seed %d: too few", seed)
		}
	}
}

// reads returns the answers to all reads about tenant blue, by their paths.
func (w *foreignWorld) reads(token string) map[string]string {
	paths := []string{}
	for _, route := range w.route {
		if route.Methods[http.MethodGet] == nil {
			continue
		}
		for _, kind := range contivmodel.Kinds() {
			of := variable.ReplaceAllStringFunc(route.Path, func(v string) string {
				part := variable.FindStringSubmatch(v)
				switch {
				case part[1] == "segment" && part[2] == "":
					return kind.Segment
				case part[2] != "":
					first, _, _ := strings.Cut(part[2], "|")
					return first
				case kind.Type == "tenant" && strings.Contains(route.Path, "{segment}"):
					return "blue"
				}
				return "blue:web"
			})
			paths = append(paths, of+"?from=own-ep&to=own-ep&protocol=tcp&port=80")
		}
	}
	answers := map[string]string{}
	for _, path := range paths {
		w.now.Add(int64(time.Second))
		r := httptest.NewRequest(http.MethodGet, "https://m1"+path, nil)
		r.TLS = new(tls.ConnectionState)
		r.Header.Set(auth.TokenHeader, token)
		got := httptest.NewRecorder()
		w.api.ServeHTTP(got, r)
		answers[path] = fmt.Sprintf("%d %s", got.Code, differs.ReplaceAllString(got.Body.String(), "$1"))
	}
	return answers
}

// What is read about a tenant does not depend on how much others have, or whether they have anything.
func TestNoAnswerTellsHowMuchOthersHave(t *testing.T) {
	w := newForeignWorld(t, guessed, 1)
	root := "proven:root"
	w.want(root, "DELETE", "serviceLBs/blue:svc", "", 200, "")
	for _, who := range []string{"admin of blue", "viewer of blue", "bare"} {
		token := w.asks[slices.Index(foreignAsks, who)]
		before := w.reads(token)
		if len(before) < 50 {
			t.Fatalf("%d paths", len(before))
		}
		changes := map[string]func(){
			"others have more networks and services": func() {
				for i := range 3 {
					name := fmt.Sprintf("%smore%d%s", plantedName, i, strings.ReplaceAll(who, " ", ""))
					w.want(root, "POST", "networks/ghost:"+name, fmt.Sprintf(`{"tenantName":"ghost","networkName":%q,"encap":"vxlan","subnet":"10.%d.%d.0/24"}`, name, 100+i, len(who)), 200, "")
					w.want(root, "POST", "serviceLBs/ghost:"+name, fmt.Sprintf(`{"tenantName":"ghost","serviceName":%q,"networkName":%q,"selectors":["app=a"],"ports":["80:80:TCP"]}`, name, name), 200, "")
				}
			},
		}
		for what, change := range changes {
			change()
			w.sameReads(what, who, before, w.reads(token))
		}
	}
	before := map[string]map[string]string{}
	for _, who := range []string{"admin of blue", "bare"} {
		before[who] = w.reads(w.asks[slices.Index(foreignAsks, who)])
	}
	w.plan(func(tx *ledger.Tx) error {
		for _, prefix := range []string{mastercfg.ModelKey("serviceLB", ""), mastercfg.ServiceLBPrefix} {
			tx.Range(prefix, func(key string, _ []byte) bool { tx.Delete(key); return true })
		}
		return nil
	})
	for who, then := range before {
		w.sameReads("others have no services any more", who, then, w.reads(w.asks[slices.Index(foreignAsks, who)]))
	}
}

func (w *foreignWorld) sameReads(what, who string, before, after map[string]string) {
	w.Helper()
	for path, answer := range before {
		if after[path] != answer {
			w.Errorf("%s: to %s\n%s\nis other: %.600s\n%.600s", what, who, path, answer, after[path])
		}
	}
}
