package programmer

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/contiv/netplugin/ofnet/openflow"
	"github.com/contiv/netplugin/ofnet/pipeline"
	"github.com/contiv/netplugin/utils/notify"
)

// Config is the switch to program, and the functions by which the programmer gets input and reports results.
// All but Chunk is needed. The programmer waits for the functions and does nothing else meanwhile; for
// UnderlayMTU only on a new connection, later another goroutine does.
type Config struct {
	Log           *logrus.Entry
	Bridge        string        // its name, for errors
	AuditInterval time.Duration // how often the switch is compared with the books
	Chunk         int           // flows in a bundle; 0: the default
	WantsSizes    bool          // packet sizes may be compared

	Connections <-chan Switch // new connections; the contents of their switches are unknown
	FlowsLost   notify.Signal // the switch may have deleted its flows
	Excluded    func() bool   // another driver has the bridge: nothing is written
	Ports       Ports

	Compiler      func(at FixedPorts, can Abilities) Compiler
	ComparesSizes func(ctx context.Context) (bool, error) // whether the switch can, and may
	UnderlayMTU   func() (int, error)                     // limit of packets to other nodes

	Replaced  func(old, now pipeline.Object) // an object has replaced another one; either may be nil
	Complete  func()                         // the objects are complete
	Connected func()                         // the switch may be another one
	AuditDue  func()                         // it is time for the next part of an audit
	Report    func(Progress)
}

// Switch is what the programmer needs of an OpenFlow connection.
type Switch interface {
	// Bundle applies all messages in one step, or none.
	Bundle(ctx context.Context, messages ...openflow.Message) error
	// Send applies each message by itself and returns the refusals.
	Send(ctx context.Context, messages ...openflow.Message) error
	// SendEach is Send that returns for each message why it was refused, if it was.
	SendEach(ctx context.Context, messages ...openflow.Message) (refusals []error, err error)
	EachFlow(ctx context.Context, filter openflow.FlowFilter, do func(openflow.FlowEntry) error) error
	Groups(ctx context.Context) ([]openflow.Group, error)
	Meters(ctx context.Context) ([]openflow.Meter, error)
	MeterFeatures(ctx context.Context) (openflow.MeterFeatures, error)
	Tables(ctx context.Context) ([]openflow.TableStats, error)
	Done() <-chan struct{}
	Close()
}

// Ports returns the OpenFlow numbers of ports. It is called for several endpoints concurrently.
type Ports interface {
	FixedPorts() FixedPorts
	EndpointNumber(endpointID string) uint32 // 0: it has no port
	Slowed(endpointID string) bool           // as pipeline.Endpoint has it
	// ChangedEndpoints returns, once, the endpoints whose ports have changed.
	ChangedEndpoints() []string
}

// FixedPorts are the numbers of the ports that are part of the flows of many objects.
type FixedPorts struct {
	Trunk uint32 // 0: unknown
	Names uint32 // 0: there is no name server
}

// Abilities are those of switch and underlay that many flows depend on.
type Abilities struct {
	MetersEnd uint32 // as in pipeline.Config
	MTU       int    // likewise
}

// Compiler computes what the switch must have for objects, as the pipeline does. It is called for
// several objects concurrently.
type Compiler interface {
	Base() pipeline.Wants
	For(o pipeline.Object, port uint32) (pipeline.Wants, error)
}

// Progress is the programmer's report about its state.
type Progress struct {
	Connected bool
	InSync    bool      // every wanted object is in the switch
	Lost      bool      // the switch has nothing of the driver's, and what it should have is not known yet
	Owes      time.Time // since when changes are pending and the switch has accepted none; zero: none are pending
	Flows     int       // number of wanted flows
	Others    int       // flows of other programs that are kept, as they cannot be parsed
	Conflicts []string  // pairs of objects that want different flows for the same packets
	Err       error     // one reason why the switch is not as it should be
}
