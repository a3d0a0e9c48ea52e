package api

import (
	"context"

	"github.com/contiv/netplugin/contivmodel"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// change is one plan in progress: its transaction and what it may want to know
// of the daemon.
type change struct {
	*ledger.Tx
	config *Config
	by     *asking // nil: netmaster itself, or anybody in an open cluster
}

// put stores model objects.
func (c *change) put(objects ...contivmodel.Object) error {
	for _, o := range objects {
		if err := master.Put(c.Tx, o); err != nil {
			return err
		}
	}
	return nil
}

// view is one look at the state: a snapshot, and what an answer needs besides it.
type view struct {
	ledger.Reader
	ctx context.Context // of the request
	api *API
}

// storage is what can be done with the objects of one type.
type storage interface {
	list(ledger.Reader, scope) jsonstream.Array
	get(r ledger.Reader, key string) (contivmodel.Object, error)
	create(*change, contivmodel.Object) (contivmodel.Object, error)
	update(c *change, stored, wanted contivmodel.Object) error
	remove(*change, contivmodel.Object) error
	inspect(*view, contivmodel.Object) (any, error)
}

// storages has a line for each type that can be worked with, whose functions
// are in a file of its own. The other types of the model can be listed, and
// hold nothing.
func storages() map[string]storage {
	return map[string]storage{
		"global":            of(createGlobal, updateGlobal, removeGlobal, inspectGlobal),
		"tenant":            of(createTenant, updateTenant, removeTenant, inspectTenant),
		"network":           of(createNetwork, updateNetwork, removeNetwork, inspectNetwork),
		"endpointGroup":     of(createGroup, updateGroup, removeGroup, inspectGroup),
		"policy":            of(createPolicy, updatePolicy, removePolicy, inspectPolicy),
		"rule":              of(createRule, updateRule, removeRule, configOnly),
		"netprofile":        of(createNetprofile, updateNetprofile, removeNetprofile, configOnly),
		"extContractsGroup": of(createContracts, updateContracts, removeContracts, configOnly),
		"appProfile":        of(createAppProfile, updateAppProfile, removeAppProfile, configOnly),
		"aciGw":             of(createAciGw, updateAciGw, removeAciGw, inspectAciGw),
		"serviceLB":         of(createServiceLB, updateServiceLB, removeServiceLB, configOnly), // inspectService asks nodes, too
		"Bgp":               of(createBgp, updateBgp, removeBgp, inspectBgp),
	}
}

// typed is the storage of the type T.
//
// creates gets the object as it was sent, validated and without links; it
// stores the object and everything that follows from it. updates changes the
// stored object towards the wanted one and stores it. removes takes the stored
// object and everything that followed from it away. Link-sets that list other
// objects need no care: they are not stored, and complete in a stored object
// that updates, removes and inspects get (master/links.go).
type typed[T any, P contivmodel.Pointer[T]] struct {
	creates  func(*change, P) error
	updates  func(c *change, stored, wanted P) error
	removes  func(*change, P) error
	inspects func(*view, P) (any, error)
}

// of makes a storage of the functions of one type.
func of[T any, P contivmodel.Pointer[T]](creates func(*change, P) error, updates func(c *change, stored, wanted P) error,
	removes func(*change, P) error, inspects func(*view, P) (any, error)) storage {
	return typed[T, P]{creates, updates, removes, inspects}
}

func (typed[T, P]) list(r ledger.Reader, s scope) jsonstream.Array {
	return func(item func(any) error) error {
		for _, prefix := range s.prefixes {
			err := ledger.ReadEach(r, prefix, func(key string, o T) error {
				if !s.holds(key) {
					return nil
				}
				master.Complete(r, P(&o))
				contivmodel.Redact(P(&o))
				return item(o)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func (typed[T, P]) get(r ledger.Reader, key string) (contivmodel.Object, error) {
	o, err := master.Get[T, P](r, key, notFound(P(new(T)).ModelType()))
	if err != nil {
		return nil, err
	}
	master.Complete(r, o)
	return o, nil
}

// create leaves the object as it was sent: a plan may run again.
func (t typed[T, P]) create(c *change, sent contivmodel.Object) (contivmodel.Object, error) {
	fresh := *sent.(P)
	return P(&fresh), t.creates(c, &fresh)
}

func (t typed[T, P]) update(c *change, stored, wanted contivmodel.Object) error {
	return t.updates(c, stored.(P), wanted.(P))
}

func (t typed[T, P]) remove(c *change, o contivmodel.Object) error { return t.removes(c, o.(P)) }

func (t typed[T, P]) inspect(v *view, o contivmodel.Object) (any, error) {
	return t.inspects(v, o.(P))
}

// configOnly answers inspection of types without run-time data.
func configOnly[T any, P contivmodel.Pointer[T]](_ *view, o P) (any, error) {
	return contivmodel.ConfigInspect[T]{Config: *o}, nil
}

// inspection is the answer to inspect with a run-time view that is made late.
func inspection(answer any, oper jsonstream.Object) jsonstream.Object {
	return jsonstream.Object{Of: answer, Late: map[string]any{"Oper": oper}}
}

func notFound(objType string) error { return fault.New(fault.NotFound, "%s not found", objType) }
