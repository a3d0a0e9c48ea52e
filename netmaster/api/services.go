package api

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/gorilla/mux"

	"github.com/contiv/netplugin/netmaster/api/auth"
	"github.com/contiv/netplugin/netmaster/api/jsonstream"
	"github.com/contiv/netplugin/netmaster/api/rest"
	"github.com/contiv/netplugin/netmaster/master"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/objdb/ledger"
	"github.com/contiv/netplugin/utils/fault"
)

// services answers the records of all services, with their providers.
func (a *API) services(asked *http.Request) (rest.Reply, error) {
	caller := auth.CallerFrom(asked.Context())
	return rest.Reply{From: func(r ledger.Reader) (rest.Reply, error) {
		sees, err := caller.Sees(r)
		if err != nil {
			return rest.Reply{}, err
		}
		if !seesService(r, sees) {
			return rest.Reply{}, fault.New(fault.NotFound, "key not found")
		}
		all := func(item func(any) error) error {
			providers := providers{r, map[string][]mastercfg.CfgEndpointState{}}
			return ledger.ReadEach(r, mastercfg.ServiceLBPrefix, func(_ string, s mastercfg.CfgServiceLBState) error {
				if !sees(s.Tenant) {
					return nil
				}
				if err := providers.fillIn(&s); err != nil {
					return err
				}
				return item(s)
			})
		}
		return rest.Reply{Body: jsonstream.Array(all)}, nil
	}}, nil
}

// seesService reports whether there is a service of a tenant that the caller sees. Without one the answer is the
// same whether others have services or not.
func seesService(r ledger.Reader, sees func(tenant string) bool) (found bool) {
	r.Range(mastercfg.ServiceLBPrefix, func(key string, _ []byte) bool {
		_, tenant, _ := strings.Cut(strings.TrimPrefix(key, mastercfg.ServiceLBPrefix), ":")
		found = sees(tenant)
		return !found
	})
	return found
}

// service answers an array with the record of one service, or null.
func (a *API) service(r *http.Request) (rest.Reply, error) {
	id := mux.Vars(r)["id"]
	return rest.Reply{From: func(reader ledger.Reader) (rest.Reply, error) {
		sees, err := auth.CallerFrom(r.Context()).Sees(reader)
		if err != nil {
			return rest.Reply{}, err
		}
		s, err := master.GetService(reader, id)
		if fault.Is(err, fault.NotFound) || err == nil && !sees(s.Tenant) {
			return rest.Reply{}, nil
		}
		if err == nil {
			providers := providers{reader, map[string][]mastercfg.CfgEndpointState{}}
			err = providers.fillIn(&s)
		}
		return rest.Reply{Body: []mastercfg.CfgServiceLBState{s}}, err
	}}, nil
}

// providers computes the fields that the stored records of services lack.
type providers struct {
	ledger.Reader
	containers map[string][]mastercfg.CfgEndpointState // by tenant
}

func (p providers) fillIn(s *mastercfg.CfgServiceLBState) error {
	if _, read := p.containers[s.Tenant]; !read {
		all, err := master.Containers(p, s.Tenant)
		if err != nil {
			return err
		}
		p.containers[s.Tenant] = all
	}
	s.Providers = map[string]mastercfg.Provider{}
	for _, ep := range master.Selected(s, p.containers[s.Tenant]) {
		address := cmp.Or(ep.IPAddress, ep.IPv6Address)
		s.Providers[address+":"+s.Tenant] = mastercfg.Provider{
			IPAddress: address, ContainerID: ep.ContainerID, Labels: ep.Labels, Tenant: s.Tenant,
			Network: ep.NetID, Services: []string{s.ID}, EpIDKey: ep.ID,
		}
	}
	return nil
}
