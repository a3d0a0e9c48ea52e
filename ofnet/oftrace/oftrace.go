// Package oftrace parses the output of ovs-vswitchd for a packet traced through the tables of a bridge
// (ofproto/trace of ovs-vswitchd(8)). The text is for people, and versions differ in it: unknown lines are
// skipped.
package oftrace

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// Trace is the path of one packet.
type Trace struct {
	Steps    []Step // in the order in which the packet passed the tables; a table that was only consulted is among them
	Final    string // final fields of the packet, if they differ from the first ones
	Datapath string // the datapath's final actions for such packets; "drop": none
	Warnings []string
	Resumed  []Resumed // after the connection tracker, in order
	Lost     bool      // the last of these was not followed: the switch does not do that for a packet that did not begin in its first table
}

// Resumed is where a packet continues after the connection tracker.
type Resumed struct {
	Table  uint8
	Before int    // number of steps before it
	Packet string // its fields then
}

// Step is a table and the flow that matched in it.
type Step struct {
	Table   uint8
	Match   string // as ovs-ofctl(8) prints it, without the table; empty: everything
	Cookie  uint64 // 0: none, or no flow matched
	Missed  bool   // no flow matched
	Actions []string
}

var (
	stepLine = regexp.MustCompile(`^\s*(\d{1,3})(?:\([^)]*\))?\. (.*)$`)
	forkLine = regexp.MustCompile(`The forked pipeline will be resumed at table (\d{1,3})\.`)
	flowText = regexp.MustCompile(`^(?:(.*), )?priority \d+(?:, cookie 0x([0-9a-f]+))?`)
)

const (
	datapathActions = "Datapath actions: "
	warning         = ">> "
	unchanged       = "Final flow: unchanged"
	resumed         = "thaw"
)

// notToOurselves is the switch's reason not to output a packet to a tunnel whose remote end is the address at
// which the packet arrived. In a trace, and only there, the switch takes the remote end chosen by the previous
// pass for that address, so that after the connection tracker no packet would be output to a tunnel.
const notToOurselves = "Not tunneling to our own address"

// Parse parses the text of a trace, and returns what the first bridge does. A packet that was sent to the
// connection tracker continues after it, in the same Trace. An empty Datapath of a trace with an outcome is
// unknown.
func Parse(text string) Trace {
	var t Trace
	walking, bridge := false, ""        // between the name of the bridge and the outcome
	isResumed, mistaken := false, false // of this pass: it follows the tracker; the switch has wrongly reported notToOurselves
	var forks []uint8                   // tables in which the packet is to continue
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		words := strings.TrimSpace(line)
		if fork := forkLine.FindStringSubmatch(words); fork != nil {
			table, _ := strconv.ParseUint(fork[1], 10, 8) // three digits: out of range, the last table
			forks = append(forks, uint8(table))
		}
		if packet, is := strings.CutPrefix(words, "Flow: "); is && len(forks) > 0 {
			t.Resumed = append(t.Resumed, Resumed{forks[0], len(t.Steps), packet})
			forks = forks[1:]
		}
		t.Lost = t.Lost || strings.Contains(words, "Recirculation conflict")
		datapath, isOutcome := strings.CutPrefix(words, datapathActions)
		switch {
		case isOutcome:
			if mistaken && datapath == "drop" {
				datapath = ""
			}
			t.Datapath, walking, isResumed, mistaken = datapath, false, false, false
		case strings.HasPrefix(words, "bridge(\""):
			bridge = cmp.Or(bridge, words)
			walking = words == bridge // not after a patch port, where the other bridge only learns
		case !walking || strings.Trim(words, "-") == "":
		case strings.HasPrefix(words, "Final flow:"):
			if walking = false; words != unchanged {
				t.Final = strings.TrimPrefix(words, "Final flow: ")
			}
		case isResumed && words == warning+notToOurselves:
			mistaken = true
		case strings.HasPrefix(words, warning):
			t.Warnings = append(t.Warnings, strings.TrimPrefix(words, warning))
		default:
			if step, ok := parseStep(line); ok {
				t.Steps = append(t.Steps, step)
				continue
			}
			isResumed = isResumed || words == resumed
			if last := len(t.Steps) - 1; last >= 0 {
				t.Steps[last].Actions = append(t.Steps[last].Actions, words)
			}
		}
	}
	return t
}

func parseStep(line string) (Step, bool) {
	parts := stepLine.FindStringSubmatch(line)
	if parts == nil {
		return Step{}, false
	}
	table, err := strconv.ParseUint(parts[1], 10, 8)
	if err != nil {
		return Step{}, false
	}
	step := Step{Table: uint8(table), Missed: strings.HasPrefix(parts[2], "No match")}
	if flow := flowText.FindStringSubmatch(parts[2]); flow != nil {
		step.Match = flow[1]
		step.Cookie, _ = strconv.ParseUint("0"+flow[2], 16, 64) // digits only; a value out of range is no cookie of ours
	}
	return step, true
}
