package api

import (
	"errors"
	"strings"

	"github.com/contiv/netplugin/netmaster/mastercfg"
	"github.com/contiv/netplugin/netmaster/resources"
	"github.com/contiv/netplugin/utils/fault"
)

// PoolExhausted is the reason of events about pods for which there is no address.
const PoolExhausted = "PoolExhausted"

// PodAddress is what has become of the request of a pod for an address.
type PodAddress struct {
	Namespace, Name, UID string // as the pod's node says
	Node                 string
	Lack                 string // why it got none; empty: it has one
}

// TellAddresses has pods of Kubernetes told of that get no address, and of those that do.
func (a *API) TellAddresses(tell func(PodAddress)) { a.addresses.Store(&tell) }

// tellAddress tells what has become of a request. The error for the container runtime has the words of the event.
func (a *API) tellAddress(req *mastercfg.CreateEndpointRequest, err error) error {
	if req.PodUID == "" || err != nil && !errors.Is(err, resources.ErrNoAddress) {
		return err
	}
	told := PodAddress{Namespace: req.PodNamespace, Name: req.EPCommonName, UID: req.PodUID, Node: req.ConfigEP.Host}
	if err != nil {
		err = fault.New(fault.Exhausted, "%s: pod %s/%s gets no address in network %s of tenant %s: %w; it gets one when another endpoint goes, "+
			"or let it belong to another network, or to a group with another range (annotations %s, %s)",
			PoolExhausted, req.PodNamespace, req.EPCommonName, req.NetworkName, req.TenantName, err, mastercfg.NetworkLabel, mastercfg.GroupLabel)
		told.Lack = strings.TrimPrefix(err.Error(), PoolExhausted+": ")
	}
	if tell := a.addresses.Load(); tell != nil {
		(*tell)(told)
	}
	return err
}
