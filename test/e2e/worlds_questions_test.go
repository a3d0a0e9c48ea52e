package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// fares expects that soon all pods get exactly the answers of the oracle.
func (w inhabited) fares(when string) {
	w.Helper()
	targets := w.targets()
	w.soon(shortly, func() error {
		var wg sync.WaitGroup
		all := make([]error, len(w.pods)*int(packetSizes))
		for i := range all {
			p, size := w.pods[i/int(packetSizes)], packetSize(i%int(packetSizes))
			wg.Go(func() { all[i] = w.askedBy(p, size, targets) })
		}
		wg.Wait()
		if err := errors.Join(all...); err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		return nil
	})
}

// targets returns the addresses of all pods and services; several may have the same one.
func (w inhabited) targets() (all []netip.Addr) {
	for _, p := range w.pods {
		all = append(all, p.addresses...)
	}
	for _, s := range w.services {
		all = append(all, s.addresses...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// askedBy compares the answers that a pod gets with the expected ones, in packets of a size.
func (w inhabited) askedBy(p *worldPod, size packetSize, targets []netip.Addr) error {
	pod := w.alive[p]
	args := append([]string{pod.Probe(), "reach", "-refusals", "-wait", patience.String()}, size.arguments(w.world, p)...)
	all, at := w.questions(p, size, targets), map[string][]string{}
	for _, q := range all {
		at[q.protocol] = append(at[q.protocol], q.target())
	}
	for protocol, targets := range at {
		args = append(args, "-"+protocol, strings.Join(targets, ","))
	}
	out, err := pod.Run(w.ctx, args...)
	if err != nil {
		return err
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	var wrong []error
	for _, q := range all {
		if answer, want := got[q.target()], w.answers(p, q); !slices.Contains(want, answer) {
			wrong = append(wrong, fmt.Errorf("%s of %s, group %q, asks %s by %s (%s) and gets %q, want one of %q", p.name, p.tenant, p.group, q.target(), q.protocol, q.size, answer, want))
		}
	}
	return errors.Join(wrong...)
}

// questions returns those of a pod to others and to services. Only datagrams and pings have a size.
func (w *world) questions(p *worldPod, size packetSize, targets []netip.Addr) (all []question) {
	for _, a := range targets {
		isService := slices.ContainsFunc(w.services, func(s worldService) bool { return slices.Contains(s.addresses, a) })
		for _, k := range kinds {
			if !slices.Contains(p.addresses, a) && (isService || !k.shut) && (size == least || k.protocol == "ping" || k.protocol == "udp") {
				all = append(all, question{k, size, a})
			}
		}
	}
	return all
}

// patience is for all answers; all pods ask at once.
const patience = 5 * time.Second

// target returns the address, and the port, of a question, in the probe's form.
func (q question) target() string {
	if q.port == "" {
		return q.to.String()
	}
	return net.JoinHostPort(q.to.String(), q.port)
}
