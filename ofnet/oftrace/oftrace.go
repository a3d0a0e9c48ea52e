// Package oftrace reads what ovs-vswitchd tells of the way of a packet through the tables of a
// bridge (ofproto/trace of ovs-vswitchd(8)). The text is for people, and versions differ in it: lines that
// are not understood are left out.
package oftrace

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
)

// Trace is the way of one packet.
type Trace struct {
	Steps    []Step // in the order in which the packet met the tables; one that was only asked is among them
	Final    string // fields of the packet in the end, if they are others than at first
	Datapath string // what the datapath does with such packets in the end; "drop": nothing
	Warnings []string
	Resumed  []Resumed // behind the connection tracker, in their order
	Lost     bool      // the last of these was not followed: the switch does not do that for a packet that did not begin in its first table
}

// Resumed is where a packet goes on that the connection tracker was asked about.
type Resumed struct {
	Table  uint8
	Before int    // how many steps come before
	Packet string // its fields then
}

// Step is a table with the flow that matched there.
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

// notToOurselves is why the switch sends a packet into no tunnel whose other end is the one that it has come by to. In
// a trace, and nowhere else, it takes for that the end that the pass before has chosen, so that behind the connection
// tracker no packet would go into a tunnel.
const notToOurselves = "Not tunneling to our own address"

// Parse reads the text of a trace, of what the first bridge does. A packet that the connection tracker was asked about begins anew behind
// it, in the same Trace. An empty Datapath of a trace with an outcome is not known.
func Parse(text string) Trace {
	var t Trace
	walking, bridge := false, ""        // between the name of the bridge and the outcome
	isResumed, mistaken := false, false // of this pass: the tracker was asked before; the switch has told of a tunnel what is not so
	var forks []uint8                   // tables where the packet is to go on
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		words := strings.TrimSpace(line)
		if fork := forkLine.FindStringSubmatch(words); fork != nil {
			table, _ := strconv.ParseUint(fork[1], 10, 8) // three digits: if they are too many, the last table
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
			walking = words == bridge // not that behind a patch port, which is learning by itself
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
		step.Cookie, _ = strconv.ParseUint("0"+flow[2], 16, 64) // digits only, and too many are no cookie of ours
	}
	return step, true
}
