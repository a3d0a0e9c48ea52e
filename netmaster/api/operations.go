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

// operations are what can be done with objects of one type.
type operations struct {
	list    func(ledger.Reader, scope) jsonstream.Array
	get     func(ledger.Reader, string) (contivmodel.Object, error)
	create  func(*change, contivmodel.Object) (contivmodel.Object, error)
	update  func(c *change, stored, wanted contivmodel.Object) error
	remove  func(*change, contivmodel.Object) error
	inspect func(*view, contivmodel.Object) (any, error)
}

// plans are the functions of one type, as its file has them.
//
// create gets the object as it was sent, validated and without links; it stores
// the object and everything that follows from it. update changes the stored
// object towards the wanted one and stores it. remove takes the stored object
// and everything that followed from it away. Link-sets that list other objects
// need no care: they are not stored, and complete in a stored object that
// update, remove and inspect get (master/links.go).
type plans[T any, P contivmodel.Pointer[T]] struct {
	create  func(*change, P) error
	update  func(c *change, stored, wanted P) error
	remove  func(*change, P) error
	inspect func(*view, P) (any, error)
}

// allOperations has a line for each type that can be worked with. The other
// types of the model can be listed, and hold nothing.
func allOperations() map[string]operations {
	return map[string]operations{
		"global":            untyped(plans[contivmodel.Global, *contivmodel.Global]{createGlobal, updateGlobal, removeGlobal, inspectGlobal}),
		"tenant":            untyped(plans[contivmodel.Tenant, *contivmodel.Tenant]{createTenant, updateTenant, removeTenant, inspectTenant}),
		"network":           untyped(plans[contivmodel.Network, *contivmodel.Network]{createNetwork, updateNetwork, removeNetwork, inspectNetwork}),
		"endpointGroup":     untyped(plans[contivmodel.EndpointGroup, *contivmodel.EndpointGroup]{createGroup, updateGroup, removeGroup, inspectGroup}),
		"policy":            untyped(plans[contivmodel.Policy, *contivmodel.Policy]{createPolicy, updatePolicy, removePolicy, inspectPolicy}),
		"rule":              untyped(plans[contivmodel.Rule, *contivmodel.Rule]{createRule, updateRule, removeRule, configOnly[contivmodel.Rule]}),
		"netprofile":        untyped(plans[contivmodel.Netprofile, *contivmodel.Netprofile]{createNetprofile, updateNetprofile, removeNetprofile, configOnly[contivmodel.Netprofile]}),
		"extContractsGroup": untyped(plans[contivmodel.ExtContractsGroup, *contivmodel.ExtContractsGroup]{createContracts, updateContracts, removeContracts, configOnly[contivmodel.ExtContractsGroup]}),
		"appProfile":        untyped(plans[contivmodel.AppProfile, *contivmodel.AppProfile]{createAppProfile, updateAppProfile, removeAppProfile, configOnly[contivmodel.AppProfile]}),
		"aciGw":             untyped(plans[contivmodel.AciGw, *contivmodel.AciGw]{createAciGw, updateAciGw, removeAciGw, inspectAciGw}),
		"serviceLB":         untyped(plans[contivmodel.ServiceLB, *contivmodel.ServiceLB]{createServiceLB, updateServiceLB, removeServiceLB, inspectServiceLB}),
		"Bgp":               untyped(plans[contivmodel.Bgp, *contivmodel.Bgp]{createBgp, updateBgp, removeBgp, inspectBgp}),
	}
}

// untyped makes plans usable for objects whose type is known at run time only.
func untyped[T any, P contivmodel.Pointer[T]](p plans[T, P]) operations {
	objType := P(new(T)).ModelType()
	return operations{
		list: func(r ledger.Reader, s scope) jsonstream.Array {
			return func(item func(any) error) error {
				return ledger.ReadEach(r, s.prefix, func(key string, o T) error {
					if !s.holds(key) {
						return nil
					}
					master.Complete(r, P(&o))
					return item(o)
				})
			}
		},
		get: func(r ledger.Reader, key string) (contivmodel.Object, error) {
			stored, err := master.Get[T, P](r, key, notFound(objType))
			if err != nil {
				return nil, err
			}
			master.Complete(r, stored)
			return stored, nil
		},
		create: func(c *change, o contivmodel.Object) (contivmodel.Object, error) {
			// A plan may run again; each run begins with the object as it was sent.
			fresh := *o.(P)
			return P(&fresh), p.create(c, &fresh)
		},
		update: func(c *change, stored, wanted contivmodel.Object) error {
			return p.update(c, stored.(P), wanted.(P))
		},
		remove:  func(c *change, o contivmodel.Object) error { return p.remove(c, o.(P)) },
		inspect: func(v *view, o contivmodel.Object) (any, error) { return p.inspect(v, o.(P)) },
	}
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
