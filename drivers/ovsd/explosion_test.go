package ovsd_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/contiv/netplugin/drivers/ovsd"
)

// sendAllKinds sends datagrams to addresses and ports that differ in ever other bits, so that each needs a mask of
// its own, until its input ends.
const sendAllKinds = `
import select, socket, sys
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); raw.bind(("eth0", 0))
own, mac = bytes(map(int, sys.argv[1].split("."))), raw.getsockname()[4]
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0.05)[0]:
    for bit in range(32):
        to = int.from_bytes(own, "big") ^ 1 << bit
        for port in range(16):
            ip = b"\x45\0\0\x1c\0\0\x40\0\x40\x11\0\0" + own + to.to_bytes(4, "big")
            udp = (40000).to_bytes(2, "big") + (8080 ^ 1 << port).to_bytes(2, "big") + b"\0\x08\0\0"
            raw.send(b"\0\0\x11\x11\x11\x11" + mac + b"\x08\0" + ip + udp)
`

func TestTheLogTellsWhichPodMakesPacketsOfAllKinds(t *testing.T) {
	n := newNode(t)
	logger, said := test.NewNullLogger()
	n.config.AuditInterval, n.config.Log = 200*time.Millisecond, logrus.NewEntry(logger)
	n.manyMasks = 20
	r := n.start()
	quiet, loud := n.newPod(r, 1), n.newPod(r, 2)
	r.give(everything(quiet, loud))
	quiet.exec("ping", "-c", "2", "-i", "0.01", "-W", "5", loud.endpoint.IPv4.String())
	warned := func() bool {
		return slices.ContainsFunc(said.AllEntries(), func(e *logrus.Entry) bool {
			return e.Level == logrus.WarnLevel && strings.Contains(e.Message, "for what endpoint "+loud.endpoint.ID+" ")
		})
	}
	if warned() {
		t.Fatal("a few pings are taken for packets of all kinds")
	}
	end := loud.start(sendAllKinds, loud.endpoint.IPv4.String())
	n.Vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500") // idle flows expire soon
	eventually(t, "the log tells who", warned)
	end()
	eventually(t, "the log tells that it is over", func() bool {
		last := ""
		for _, e := range said.AllEntries() {
			if strings.Contains(e.Message, " masks") {
				last = e.Message
			}
		}
		return strings.HasSuffix(last, " masks again")
	})
}

// Each port has masks of its own in ovs-vswitchd: masks of many pods do not slow down any of them.
func TestMasksOfPodsAreNotAddedUp(t *testing.T) {
	n := newNode(t)
	n.config.AuditInterval = 50 * time.Millisecond
	r := n.start()
	var pods []*pod
	for i := range byte(4) {
		pods = append(pods, n.newPod(r, i+1))
	}
	r.give(everything(pods...))
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(ovsd.DatapathMetrics{r.Driver}); err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		p.reaches(network.Gateway.String())
	}
	used := regexp.MustCompile(`Use count: (\d+)`)
	eventually(t, "what is told is what the port has that has most", func() bool {
		all, told := 0, 0
		for _, found := range used.FindAllStringSubmatch(n.Appctl("dpif-netdev/subtable-lookup-info-get"), -1) {
			count, err := strconv.Atoi(found[1])
			if err != nil {
				t.Fatal(err)
			}
			all += count
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "netplugin_datapath_masks" {
				told = int(f.GetMetric()[0].GetGauge().GetValue())
			}
		}
		return told > 0 && all >= 2*len(pods) && told <= all/2
	})
}
