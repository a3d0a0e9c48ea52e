package api

import (
	"net/http"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// services answers with the records of all services, with their providers.
func (a *API) services(*http.Request) (reply, error) {
	var all []mastercfg.CfgServiceLBState
	err := a.ledger.View(func(r ledger.Reader) (err error) {
		all, err = ledger.ReadAll[mastercfg.CfgServiceLBState](r, mastercfg.ServiceLBPrefix)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return fault.New(fault.NotFound, "key not found")
		}
		return withProviders(r, all)
	})
	return reply{body: all}, err
}

// service answers with the record of one service in an array, or with null.
func (a *API) service(r *http.Request) (reply, error) {
	var one []mastercfg.CfgServiceLBState
	err := a.ledger.View(func(reader ledger.Reader) error {
		rec, err := master.GetService(reader, mux.Vars(r)["id"])
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		one = []mastercfg.CfgServiceLBState{rec}
		return withProviders(reader, one)
	})
	return reply{body: one}, err
}

// withProviders fills in what records of the store do not hold.
func withProviders(r ledger.Reader, services []mastercfg.CfgServiceLBState) error {
	containers := map[string][]mastercfg.CfgEndpointState{}
	for i := range services {
		s := &services[i]
		if _, read := containers[s.Tenant]; !read {
			all, err := master.Containers(r, s.Tenant)
			if err != nil {
				return err
			}
			containers[s.Tenant] = all
		}
		s.Providers = map[string]mastercfg.Provider{}
		for _, ep := range master.Selected(s, containers[s.Tenant]) {
			s.Providers[ep.IPAddress+":"+s.Tenant] = mastercfg.Provider{
				IPAddress: ep.IPAddress, ContainerID: ep.ContainerID, Labels: ep.Labels, Tenant: s.Tenant,
				Network: ep.NetID, Services: []string{s.ID}, EpIDKey: ep.ID,
			}
		}
	}
	return nil
}
