package api

import (
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/netplugin/netmaster/api/objects"
	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/utils/fault"
)

// PodAddress is the outcome of a pod's request for an address.
type PodAddress struct {
	Namespace, Name, UID string // as the pod's node reports them
	Node                 string
	Reason               string // reason of the event, without an address
	Lack                 string // why it got no address; empty: it has one
}

// lack is a cause of a missing address: the reason of the event, and a remedy to add to the error.
type lack struct {
	is             error
	reason, remedy string
}

// lacks are the causes that pods get events for. Other errors do not concern a single pod.
var lacks = []lack{
	{resources.ErrNoAddress, mastercfg.PoolExhausted, fmt.Sprintf("it gets one when another endpoint goes, or let it belong to another network, "+
		"or to a group with another range (annotations %s, %s)", mastercfg.NetworkLabel, mastercfg.GroupLabel)},
	{objects.ErrNoEndpoint, mastercfg.TenantFull, "it gets one when another endpoint of the tenant goes"},
}

// TellAddresses sets the function that is called when a Kubernetes pod gets an address, or fails to.
func (a *API) TellAddresses(tell func(PodAddress)) { a.addresses.Store(&tell) }

// tellPod reports the outcome of a request. The error for the container runtime has the same text as the event.
func (a *API) tellPod(req *mastercfg.CreateEndpointRequest, err error) error {
	if req.PodUID == "" {
		return err
	}
	told := PodAddress{Namespace: req.PodNamespace, Name: req.EPCommonName, UID: req.PodUID, Node: req.ConfigEP.Host}
	if err != nil {
		i := slices.IndexFunc(lacks, func(l lack) bool { return errors.Is(err, l.is) })
		if i < 0 {
			return err
		}
		told.Reason = lacks[i].reason
		told.Lack = fmt.Sprintf("pod %s/%s gets no address in network %s of tenant %s: %v; %s",
			req.PodNamespace, req.EPCommonName, req.NetworkName, req.TenantName, err, lacks[i].remedy)
		err = fault.New(fault.Exhausted, "%s: %s", told.Reason, told.Lack)
	}
	if tell := a.addresses.Load(); tell != nil {
		(*tell)(told)
	}
	return err
}
