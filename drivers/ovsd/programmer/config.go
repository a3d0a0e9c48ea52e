package programmer

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/notify"
)

// Config says which switch to program, with what, and who hears of it. All but Chunk is needed. The programmer waits for the
// functions and does nothing else meanwhile; for UnderlayMTU only when a connection is new, and later another
// goroutine does.
type Config struct {
	Log           *logrus.Entry
	Bridge        string        // its name, for errors
	AuditInterval time.Duration // how often the switch is compared with the books
	Chunk         int           // flows in a bundle; 0: as many as are best
	WantsSizes    bool          // nobody has said that sizes are not to be compared

	Connections <-chan Switch // each that is made; about what is in the switch behind it nothing is known
	FlowsLost   notify.Signal // the switch may have forgotten its flows
	Excluded    func() bool   // another driver has the bridge: nothing is written
	Ports       Ports

	Compiler      func(at FixedPorts, can Abilities) Compiler
	ComparesSizes func(ctx context.Context) (bool, error) // whether the switch can, and shall
	UnderlayMTU   func() (int, error)                     // what packets to other nodes are held to

	Replaced  func(old, now pipeline.Object) // an object has taken the place of another one; either may be nil
	Complete  func()                         // the objects are all that there are
	Connected func()                         // the switch may be another one
	AuditDue  func()                         // it is time for the next part of an audit
	Report    func(Progress)
}

// Switch is what the programmer needs of an OpenFlow connection.
type Switch interface {
	// Bundle applies all messages in one step, or none.
	Bundle(ctx context.Context, messages ...openflow.Message) error
	// Send applies each message by itself and returns what was refused.
	Send(ctx context.Context, messages ...openflow.Message) error
	// SendEach is Send that tells of each message why it was refused, if it was.
	SendEach(ctx context.Context, messages ...openflow.Message) (refusals []error, err error)
	EachFlow(ctx context.Context, filter openflow.FlowFilter, do func(openflow.FlowEntry) error) error
	Groups(ctx context.Context) ([]openflow.Group, error)
	Meters(ctx context.Context) ([]openflow.Meter, error)
	MeterFeatures(ctx context.Context) (openflow.MeterFeatures, error)
	Tables(ctx context.Context) ([]openflow.TableStats, error)
	Done() <-chan struct{}
	Close()
}

// Ports tells the OpenFlow numbers of ports. It is asked for several endpoints at once.
type Ports interface {
	FixedPorts() FixedPorts
	EndpointNumber(endpointID string) uint32 // 0: it has no port
	Slowed(endpointID string) bool           // as pipeline.Endpoint has it
	// ChangedEndpoints returns, once, the endpoints whose ports have changed.
	ChangedEndpoints() []string
}

// FixedPorts are the numbers of the ports that are part of the flows of many objects.
type FixedPorts struct {
	Trunk uint32 // 0: not known
	Names uint32 // 0: there is no name server
}

// Abilities are what switch and underlay can do, which is part of many flows.
type Abilities struct {
	MetersEnd uint32 // as in pipeline.Config
	MTU       int    // likewise
}

// Compiler turns objects into what the switch must have; the pipeline does. It is asked for several objects at once.
type Compiler interface {
	Base() pipeline.Wants
	For(o pipeline.Object, port uint32) (pipeline.Wants, error)
}

// Progress is what the programmer says of itself.
type Progress struct {
	Connected bool
	InSync    bool      // every wanted object is in the switch
	Lost      bool      // the switch has nothing of ours, and what it should have is not known yet
	Owes      time.Time // since when changes wait and the switch has taken none; zero: none wait
	Flows     int       // that are wanted
	Others    int       // of somebody else that are left alone, as nobody knows what they do
	Conflicts []string  // pairs of objects that want different flows for the same packets
	Err       error     // one reason for the switch not to be as it should
}
