package programmer

import (
	"fmt"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/drivers"
	"github.com/contiv/netplugin/ofnet/pipeline"
)

// How input reaches the books: changes of the wanted objects, and changed numbers of ports.

// accept applies a change of the wanted objects.
func (p *Programmer) accept(c drivers.Change) {
	remove := c.Remove
	if c.Replace {
		p.replaced, p.known = true, c.Known
		keep := map[pipeline.Key]bool{}
		for _, o := range c.Set {
			keep[o.Key()] = true
		}
		for key := range p.objects {
			if !keep[key] {
				remove = append(remove, key)
			}
		}
	}
	for _, key := range remove {
		p.config.Replaced(p.objects[key], nil)
		delete(p.objects, key)
		p.enter(compiled{key: key})
	}
	for _, e := range c.Left {
		p.books.flushEndpoint(e)
	}
	changed := make([]pipeline.Key, 0, len(c.Set))
	for _, o := range c.Set {
		key := o.Key()
		old := p.objects[key]
		if old != nil && old.Equal(o) {
			continue
		}
		p.config.Replaced(old, o)
		p.objects[key] = o
		if e, is := o.(pipeline.Endpoint); is {
			before, _ := old.(pipeline.Endpoint)
			p.books.spareEndpoint(e.Without(before))
		}
		changed = append(changed, key)
	}
	if c.Replace {
		p.config.Complete()
	}
	if p.compiler != nil {
		p.compile(changed)
	}
}

// enter writes what an object wants into the books. Its earlier errors are cleared.
func (p *Programmer) enter(c compiled) {
	delete(p.invalid, c.key)
	p.forgetRefusals(c.key)
	conflicts := p.books.set(c.key, c.wants)
	p.forgetRefusals(c.key)
	if c.err != nil {
		p.invalid[c.key] = c.err
		p.problem(c.key, c.err)
	}
	for _, c := range conflicts {
		p.log.WithFields(logrus.Fields{
			"flow": describePlace(c.place), "newcomer": fmt.Sprint(c.newcomer), "present": fmt.Sprint(c.present),
		}).Warn("two objects want different flows for the same packets")
	}
}

// updatePortNumbers applies changed OpenFlow port numbers. The trunk's is in most flows, the name server's in many, an endpoint's
// only in its own.
func (p *Programmer) updatePortNumbers() {
	changed, fixed := p.config.Ports.ChangedEndpoints(), p.config.Ports.FixedPorts()
	if p.compiler == nil {
		return // the switch's abilities are unknown: everything would be computed twice
	}
	if fixed != p.fixed {
		p.fixed = fixed
		p.compileAll()
		return
	}
	var moved []pipeline.Key
	for _, id := range changed {
		for _, kind := range pipeline.KindsWithPorts {
			key := pipeline.Key{Kind: kind, ID: id}
			if _, wanted := p.objects[key]; wanted {
				moved = append(moved, key)
			}
		}
	}
	p.compile(moved)
}
