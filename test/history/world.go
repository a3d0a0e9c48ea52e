package history

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
)

// World is the store at one revision: every key, and its decoded value.
type World struct {
	Raw       map[string][]byte
	Endpoints map[string]*mastercfg.CfgEndpointState // by id
	objects   map[string]map[string]contivmodel.Object
	records   map[string]document // values decoded so far
	broken    []string            // keys that cannot be decoded
}

func newWorld() *World {
	return &World{Raw: map[string][]byte{}, Endpoints: map[string]*mastercfg.CfgEndpointState{},
		objects: map[string]map[string]contivmodel.Object{}, records: map[string]document{}}
}

// Apply applies one change.
func (w *World) Apply(c Change) {
	delete(w.records, c.Key)
	if c.Value == nil {
		delete(w.Raw, c.Key)
	} else {
		w.Raw[c.Key] = c.Value
	}
	if id, ok := strings.CutPrefix(c.Key, endpointPrefix); ok {
		delete(w.Endpoints, id)
		if c.Value != nil {
			w.Endpoints[id] = decodeAs[mastercfg.CfgEndpointState](w, c)
		}
	}
	if path, ok := strings.CutPrefix(c.Key, modelPrefix); ok {
		typ, key, _ := strings.Cut(path, "/")
		if w.objects[typ] == nil {
			w.objects[typ] = map[string]contivmodel.Object{}
		}
		delete(w.objects[typ], key)
		if c.Value != nil {
			w.objects[typ][key] = w.object(c, typ)
		}
	}
}

func decodeAs[T any](w *World, c Change) *T {
	v := new(T)
	if json.Unmarshal(c.Value, v) != nil {
		w.broken = append(w.broken, c.Key)
	}
	return v
}

func (w *World) object(c Change, typ string) contivmodel.Object {
	o := decodeObject(typ, c.Value)
	if o == nil {
		w.broken = append(w.broken, c.Key)
	}
	return o
}

// decodeObject decodes a model object, nil if it is invalid.
func decodeObject(typ string, value []byte) contivmodel.Object {
	kind, ok := contivmodel.KindByType(typ)
	if !ok {
		return nil
	}
	o := kind.New()
	if json.Unmarshal(value, o) != nil {
		return nil
	}
	return o
}

// all returns the objects of a type, sorted by key.
func all[T any, P interface {
	*T
	contivmodel.Object
}](w *World) []P {
	objects := w.objects[P(new(T)).ModelType()]
	list := make([]P, 0, len(objects))
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		if o, ok := objects[key].(P); ok {
			list = append(list, o)
		}
	}
	return list
}

// one returns an object by key, nil if it does not exist.
func one[T any, P interface {
	*T
	contivmodel.Object
}](w *World, key string) P {
	o, _ := w.objects[P(new(T)).ModelType()][key].(P)
	return o
}

// has reports whether an object exists.
func (w *World) has(typ, key string) bool {
	_, ok := w.objects[typ][key]
	return ok
}

// record decodes the value of a key as any JSON object, nil if it does not exist.
func (w *World) record(key string) document {
	d, known := w.records[key]
	if value, ok := w.Raw[key]; ok && !known {
		if json.Unmarshal(value, &d) != nil {
			d = nil
		}
		w.records[key] = d
	}
	return d
}

// endpoints returns the matching ones, sorted by id.
func (w *World) endpoints(match func(*mastercfg.CfgEndpointState) bool) []*mastercfg.CfgEndpointState {
	var list []*mastercfg.CfgEndpointState
	for _, id := range slices.Sorted(maps.Keys(w.Endpoints)) {
		if ep := w.Endpoints[id]; match(ep) {
			list = append(list, ep)
		}
	}
	return list
}
