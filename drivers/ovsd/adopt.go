package ovsd

import (
	"context"
)

// adoptLinks looks for links of ours that have no port in any bridge.
//
// There are two ways to get there. The driver was killed between making a link
// and writing its port: then the pod was never started, and will be asked for
// again or not at all. Or the database was lost, as happens where it lives in
// a container that is started anew: then the other end of the link is in a pod
// that is running.
//
// One cannot be told from the other, so every link that is known to be of an
// endpoint gets a port. If the endpoint is not wanted any more, the agent will
// find it among Ports and remove it.
func (d *Driver) adoptLinks(ctx context.Context) error {
	ends, err := d.links.ours()
	if err != nil {
		return err
	}
	for _, end := range ends {
		if err := d.adopt(ctx, end); err != nil {
			return err
		}
	}
	return nil
}

func (d *Driver) adopt(ctx context.Context, end owned) error {
	unlock, free := d.busy.tryLock(end.endpointID)
	if !free {
		return nil // AddPort or RemovePort is at it
	}
	defer unlock()
	if d.numbers.busy(end.number) || d.db.hasInterface(end.name) {
		return nil // being made, or complete
	}
	// The list of links is older than the lock.
	if _, there, err := d.links.mtu(end.name); err != nil || !there {
		return err
	}
	log := d.log.WithField("link", end.name).WithField("endpoint", end.endpointID)
	if _, other := d.db.portOf(end.endpointID); other || end.endpointID == "" {
		log.Info("unused link removed")
		return d.links.remove(end.name)
	}
	log.Info("link without a port: port made anew")
	_, _, err := d.insertPort(ctx, end.endpointID, end.name, end.number)
	return err
}
