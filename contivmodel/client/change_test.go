package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/utils/fault"
)

// versioned is a server with one global object that has a revision, and that other clients change intruders times,
// once before each post.
type versioned struct {
	object    *contivmodel.Global
	revision  int
	intruders int
	log       []string
}

func (v *versioned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		if v.object == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, v.revision))
		json.NewEncoder(w).Encode(v.object)
		return
	}
	if v.intruders > 0 {
		v.intruders--
		v.revision++
		v.object.Vxlans = fmt.Sprintf("1-%d", v.revision)
	}
	v.log = append(v.log, r.Header.Get("If-Match")+r.Header.Get("If-None-Match"))
	if match := r.Header.Get("If-Match"); match != "" && match != fmt.Sprintf(`"%d"`, v.revision) {
		w.WriteHeader(http.StatusPreconditionFailed)
		fmt.Fprint(w, "global has changed")
		return
	}
	body, _ := io.ReadAll(r.Body)
	v.object = &contivmodel.Global{}
	json.Unmarshal(body, v.object)
	v.revision++
}

func change(t *testing.T, v *versioned) error {
	t.Helper()
	c := connectTo(t, Config{URLs: []string{serve(t, v.ServeHTTP)}})
	kind, _ := contivmodel.KindByType("global")
	return c.Change(t.Context(), kind, "global", func(o contivmodel.Object, absent error) error {
		g := o.(*contivmodel.Global)
		g.Name, g.Vlans = "global", "1-100"
		return nil
	})
}

func TestAChangeKeepsWhatOthersChangedMeanwhile(t *testing.T) {
	v := &versioned{object: &contivmodel.Global{Name: "global", Vlans: "1-9", Vxlans: "1-5"}, revision: 5, intruders: 2}
	if err := change(t, v); err != nil {
		t.Fatal(err)
	}
	want := &contivmodel.Global{Key: "global", Name: "global", Vlans: "1-100", Vxlans: "1-7"}
	if diff := cmp.Diff(want, v.object); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`"5"`, `"6"`, `"7"`}, v.log); diff != "" {
		t.Error(diff)
	}
}

func TestAChangeGivesUpIfOthersAreAlwaysFaster(t *testing.T) {
	v := &versioned{object: &contivmodel.Global{Name: "global"}, revision: 1, intruders: 99}
	if err := change(t, v); !fault.Is(err, fault.Conflict) || !strings.HasSuffix(err.Error(), "global has changed") || len(v.log) != changeAttempts {
		t.Errorf("%v after %d attempts", err, len(v.log))
	}
}

func TestAChangeOfNothingCreates(t *testing.T) {
	v := &versioned{}
	if err := change(t, v); err != nil || v.object == nil || v.log[0] != "*" {
		t.Errorf("%v, %+v, %v", err, v.object, v.log)
	}
}
