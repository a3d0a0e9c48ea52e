package openflow

import "fmt"

// The ONF's extension 230 brings bundles to OpenFlow 1.3.
const (
	expBundleControl = 2300
	expBundleAdd     = 2301
)

type bundleOp uint16

// Operations on bundles; each is answered by the operation after it.
const (
	bundleOpen    bundleOp = 0
	bundleClose   bundleOp = 2
	bundleCommit  bundleOp = 4
	bundleDiscard bundleOp = 6
)

// A bundle takes effect as a whole, in the order of its messages. Each message about it carries the
// flags.
const (
	bundleAtomic  = 1
	bundleOrdered = 2
	bundleFlags   = bundleAtomic | bundleOrdered
)

var bundleOpNames = []string{"open", "opened", "close", "closed", "commit", "committed", "discard", "discarded"}

// bundleControl opens, commits or discards a bundle, or confirms that.
type bundleControl struct {
	id uint32
	op bundleOp
}

func (bundleControl) messageType() Type { return TypeExperimenter }

func (c bundleControl) String() string {
	return fmt.Sprintf("bundle %d %s", c.id, name(c.op, bundleOpNames))
}

func (c bundleControl) encodeBody(e *encoder) {
	e.u32(experimenterONF)
	e.u32(expBundleControl)
	e.u32(c.id)
	e.u16(uint16(c.op))
	e.u16(bundleFlags)
}

// bundleAdd puts a message into a bundle.
type bundleAdd struct {
	id    uint32
	xid   uint32 // of both the message and this one
	inner Message
}

func (bundleAdd) messageType() Type { return TypeExperimenter }

func (a bundleAdd) String() string { return a.inner.String() }

func (a bundleAdd) encodeBody(e *encoder) {
	e.u32(experimenterONF)
	e.u32(expBundleAdd)
	e.u32(a.id)
	e.zeros(2)
	e.u16(bundleFlags)
	e.message(a.xid, a.inner)
}

// experimenter reads the body of an experimenter message.
func (d *decoder) experimenter() Message {
	id, kind := d.u32(), d.u32()
	switch {
	case d.err != nil:
		return nil
	case id == experimenterNicira:
		return d.niciraMessage(kind)
	case id != experimenterONF:
		d.fail("experimenter %#x is not known", id)
		return nil
	case kind == expBundleControl:
		return bundleControl{id: d.u32(), op: bundleOp(d.u16())}
	case kind == expBundleAdd:
		return d.bundleAdd()
	}
	d.fail("experimenter message %d is not known", kind)
	return nil
}

func (d *decoder) bundleAdd() Message {
	a := bundleAdd{id: d.u32()}
	d.skip(4)
	h, inner, err := open(d.b)
	if err == nil && h.kind == TypeExperimenter {
		err = fmt.Errorf("bundles do not nest")
	}
	if err == nil {
		a.xid = h.xid
		a.inner, err = inner.body(h)
	}
	if err != nil {
		d.fail("message in bundle: %w", err)
	}
	return a
}
