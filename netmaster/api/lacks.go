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

// PodAddress is what has become of the request of a pod for an address.
type PodAddress struct {
	Namespace, Name, UID string // as the pod's node says
	Node                 string
	Reason               string // of the event, if it got none
	Lack                 string // why it got none; empty: it has one
}

// lack is why a pod gets no address: the reason of the event, and what can be done beside what the error says.
type lack struct {
	is             error
	reason, remedy string
}

// lacks are those that pods are told of. What else fails is no matter of one pod.
var lacks = []lack{
	{resources.ErrNoAddress, mastercfg.PoolExhausted, fmt.Sprintf("it gets one when another endpoint goes, or let it belong to another network, "+
		"or to a group with another range (annotations %s, %s)", mastercfg.NetworkLabel, mastercfg.GroupLabel)},
	{objects.ErrNoEndpoint, mastercfg.TenantFull, "it gets one when another endpoint of the tenant goes"},
}

// TellAddresses has pods of Kubernetes told of that get no address, and of those that do.
func (a *API) TellAddresses(tell func(PodAddress)) { a.addresses.Store(&tell) }

// tellPod tells what has become of a request. The error for the container runtime has the words of the event.
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
