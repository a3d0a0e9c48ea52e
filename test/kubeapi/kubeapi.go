// Package kubeapi is a Kubernetes API server with the part that a netmaster uses: it has the objects that a test
// sets, and answers lists and watches of each kind. It accepts events and drops them.
package kubeapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// Object is an API object.
type Object interface {
	runtime.Object
	metav1.Object
}

// kinds are the supported kinds of objects.
var kinds = []Object{
	&corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{}, &corev1.Service{}, &discoveryv1.EndpointSlice{},
	&networkingv1.NetworkPolicy{}, &networkingv1.ServiceCIDR{},
}

// Server is an http.Handler. All of its methods may be called at any time.
type Server struct {
	mu       sync.Mutex
	revision int64
	tables   map[string]*table // by path
	grown    chan struct{}     // closed and replaced on each change
}

// table has the objects of a kind, and all their changes.
type table struct {
	kind    schema.GroupVersionKind
	objects map[string][]byte // by namespace/name
	news    []event           // ascending
}

type event struct {
	revision int64
	text     []byte // in the format of a watch
}

// New returns a server without objects.
func New() (*Server, error) {
	s := &Server{tables: map[string]*table{}, grown: make(chan struct{})}
	for _, o := range kinds {
		kind, err := kindOf(o)
		if err != nil {
			return nil, err
		}
		s.tables[pathOf(kind)] = &table{kind: kind, objects: map[string][]byte{}}
	}
	return s, nil
}

func kindOf(o Object) (kind schema.GroupVersionKind, err error) {
	known, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		return kind, err
	}
	return known[0], nil
}

// pathOf returns the path at which all objects of a kind are listed.
func pathOf(kind schema.GroupVersionKind) string {
	plural, _ := meta.UnsafeGuessKindToResource(kind)
	if kind.Group == "" {
		return "/api/" + kind.Version + "/" + plural.Resource
	}
	return "/apis/" + kind.Group + "/" + kind.Version + "/" + plural.Resource
}

// Put creates objects, or replaces those of the same name, one after the other.
func (s *Server) Put(objects ...Object) error { return s.change(objects, false) }

// Delete deletes objects.
func (s *Server) Delete(objects ...Object) error { return s.change(objects, true) }

func (s *Server) change(objects []Object, gone bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() {
		close(s.grown)
		s.grown = make(chan struct{})
	}()
	for _, o := range objects {
		kind, err := kindOf(o)
		if err != nil {
			return err
		}
		t := s.tables[pathOf(kind)]
		if t == nil {
			return fmt.Errorf("%s is of no kind that there is", kind)
		}
		s.revision++
		o = o.DeepCopyObject().(Object)
		o.SetResourceVersion(strconv.FormatInt(s.revision, 10))
		o.GetObjectKind().SetGroupVersionKind(kind)
		text, err := json.Marshal(o)
		if err != nil {
			return err
		}
		name, what := o.GetNamespace()+"/"+o.GetName(), watch.Added
		if _, existed := t.objects[name]; existed {
			what = watch.Modified
		}
		if t.objects[name] = text; gone {
			what = watch.Deleted
			delete(t.objects, name)
		}
		t.news = append(t.news, event{s.revision, line(what, text)})
	}
	return nil
}

// line returns an event in the format of a watch.
func line(what watch.EventType, object []byte) []byte {
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", what, object)
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	t := s.tables[strings.TrimSuffix(r.URL.Path, "/")]
	query := r.URL.Query()
	switch {
	case r.Method == http.MethodPost:
		w.WriteHeader(http.StatusCreated) // an event
		fmt.Fprint(w, "{}")
	case r.Method != http.MethodGet || t == nil:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	case query.Get("watch") == "":
		s.list(w, t)
	default:
		var from int64 // the revision that the client has
		if query.Get("sendInitialEvents") == "true" {
			from = s.initial(w, t)
		} else {
			from, _ = strconv.ParseInt(query.Get("resourceVersion"), 10, 64) // 0, the start, if missing
		}
		s.watch(w, r, t, from)
	}
}

// all returns the objects of a kind and the present revision.
func (s *Server) all(t *table) (objects [][]byte, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range t.objects {
		objects = append(objects, text)
	}
	return objects, s.revision
}

// list writes all objects of a kind. Here and below, failed writes are ignored: the client has disconnected.
func (s *Server) list(w http.ResponseWriter, t *table) {
	objects, revision := s.all(t)
	fmt.Fprintf(w, `{"kind":"%sList","apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, t.kind.Kind, t.kind.GroupVersion(), revision)
	for i, text := range objects {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		_, _ = w.Write(text)
	}
	fmt.Fprint(w, "]}")
}

// initial sends all objects of a kind as watch events, and the bookmark that ends them.
func (s *Server) initial(w http.ResponseWriter, t *table) (revision int64) {
	objects, revision := s.all(t)
	for _, text := range objects {
		_, _ = w.Write(line(watch.Added, text))
	}
	_, _ = w.Write(line(watch.Bookmark, fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d","annotations":{%q:"true"}}}`,
		t.kind.Kind, t.kind.GroupVersion(), revision, metav1.InitialEventsAnnotationKey)))
	return revision
}

// watch sends the changes after a revision until the client disconnects.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, t *table, from int64) {
	flush := http.NewResponseController(w)
	for {
		s.mu.Lock()
		news := t.news[sort.Search(len(t.news), func(i int) bool { return t.news[i].revision > from }):]
		grown := s.grown
		s.mu.Unlock()
		for _, e := range news {
			from = e.revision
			if _, err := w.Write(e.text); err != nil {
				return
			}
		}
		if err := flush.Flush(); err != nil {
			return
		}
		if len(news) > 0 {
			continue
		}
		select {
		case <-grown:
		case <-r.Context().Done():
			return
		}
	}
}
