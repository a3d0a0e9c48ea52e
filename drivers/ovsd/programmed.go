package ovsd

import (
	"context"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/drivers/ovsd/programmer"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// The interface between the driver and the programmer.

// programmed returns the configuration of the programmer.
func (d *Driver) programmed() programmer.Config {
	return programmer.Config{
		Log:           d.log,
		Bridge:        d.config.Bridge,
		AuditInterval: d.config.AuditInterval,
		WantsSizes:    !d.config.NoSizeChecks,

		Connections: d.connections,
		FlowsLost:   d.flowsLost,
		Excluded:    d.db.client.Excluded,
		Ports:       d.db,

		Compiler: func(at programmer.FixedPorts, can programmer.Abilities) programmer.Compiler {
			return pipeline.New(d.config.pipelineConfig(at, can))
		},
		ComparesSizes: d.comparesSizes,
		UnderlayMTU:   d.endpointMTU,

		Replaced: func(old, now pipeline.Object) {
			d.peers.replace(old, now)
			d.slowing.replace(old, now)
			d.zones.Replaced(old, now)
		},
		Complete: d.zones.Complete,
		Connected: func() {
			d.peers.solicitAll()
			d.zones.Look()
		},
		AuditDue: d.peers.solicitAll,
		Report:   d.noteProgress,
	}
}

// Update changes the wanted objects.
func (d *Driver) Update(c drivers.Change) { d.programmer.Update(c) }

// Sync waits until the given objects, or all, are in the switch.
func (d *Driver) Sync(ctx context.Context, keys ...pipeline.Key) error {
	return d.programmer.Sync(ctx, keys...)
}

// noteProgress stores the programmer's progress.
func (d *Driver) noteProgress(p programmer.Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.status.Connected, d.status.InSync, d.status.Lost = p.Connected, p.InSync, p.Lost
	d.status.Owes = p.Owes
	d.status.Flows, d.status.Others, d.status.Conflicts = p.Flows, p.Others, p.Conflicts
	d.status.LastError = ""
	if p.Err != nil {
		d.status.LastError = p.Err.Error()
	}
}
