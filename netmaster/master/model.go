package master

import (
	"encoding/json"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// byName makes the error about a missing record name the object instead of its key in the store.
func byName(what, id string, err error) error {
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "key not found: %s %s", what, id)
	}
	return err
}

// Get reads a model object as it is stored; missing is the error if there is none.
func Get[T any, P contivmodel.Pointer[T]](r ledger.Reader, key string, missing error) (P, error) {
	v, err := ledger.Read[T](r, mastercfg.ModelKey(P(new(T)).ModelType(), key))
	if fault.Is(err, fault.NotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// GetShared is Get for an object that a plan with many changes reads often: it is decoded once (see
// ledger.ReadShared) and must not be changed.
func GetShared[T any, P contivmodel.Pointer[T]](r ledger.Reader, key string, missing error) (P, error) {
	v, err := ledger.ReadShared[T](r, mastercfg.ModelKey(P(new(T)).ModelType(), key))
	if fault.Is(err, fault.NotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Exists reports whether a model object is stored, readable or not.
func Exists(r ledger.Reader, objType, key string) bool {
	_, ok := r.Get(mastercfg.ModelKey(objType, key))
	return ok
}

// Put stores a model object under the key that its fields form.
func Put(tx *ledger.Tx, o contivmodel.Object) error {
	o.SetKey(o.ModelKey())
	return withoutLinkSets(o, func() error {
		return ledger.Write(tx, mastercfg.ModelKey(o.ModelType(), o.ModelKey()), o)
	})
}

// Drop deletes a model object.
func Drop(tx *ledger.Tx, o contivmodel.Object) {
	tx.Delete(mastercfg.ModelKey(o.ModelType(), o.ModelKey()))
}

// each visits the readable values below a prefix, which need not end in a slash, in the order of keys. The
// reconciler reports unreadable ones.
func each[T any](r ledger.Reader, prefix string, visit func(key string, v T) error) error {
	var failed error
	r.Range(prefix, func(key string, value []byte) bool {
		var v T
		if json.Unmarshal(value, &v) != nil {
			return true
		}
		failed = visit(key, v)
		return failed == nil
	})
	return failed
}

// IsNew reports whether the cluster is not configured yet: it has no network, and only the tenant that every cluster
// has.
func IsNew(r ledger.Reader) bool {
	isNew := true
	for _, objType := range []string{"network", "tenant"} {
		r.Range(mastercfg.ModelKey(objType, ""), func(key string, _ []byte) bool {
			isNew = key == mastercfg.ModelKey("tenant", mastercfg.DefaultTenant)
			return isNew
		})
		if !isNew {
			return false
		}
	}
	return true
}
