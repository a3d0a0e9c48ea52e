package ovsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/contiv/netplugin/drivers/ovsd/zones"
)

// The datapath keeps its flows by mask, the fields and bits that they match; a packet that its caches do not have
// is looked up by one mask after the other. A pod that sends all kinds of headers causes many masks (tuple space
// explosion, CVE-2019-25076). In the kernel all packets of the node are looked up by all of them; ovs-vswitchd
// looks packets of a port up by the masks of that port only, but the pod's own packets cost more. Open vSwitch has
// no remedy; masks expire when such packets end. So they are counted at each audit, the log names the endpoints
// that cause them, and an endpoint that causes very many is slowed down (slowed.go).

const (
	manyMasks = 100 // without such pods there are 10, rules of all features at once make some dozens
	// manyFlows is the number of flows from which they are not listed to find endpoints and masks: ovs-vswitchd prints
	// them all at once.
	manyFlows = 50_000
)

// unknownMasks is the count while masks were not counted yet, or could not be.
const unknownMasks = -1

// watchMasks counts masks until ctx is done. What the log calls many is over at half of that.
func (d *Driver) watchMasks(ctx context.Context) error {
	again := time.NewTicker(d.config.AuditInterval)
	defer again.Stop()
	told := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
		found, err := d.countMasks(ctx)
		if err != nil {
			d.masks.Store(unknownMasks)
			d.log.WithError(err).Debug("masks of the datapath are not counted")
			d.keepSlowed(ctx, masks{}) // releases those whose time is over
			continue
		}
		d.masks.Store(int64(found.count))
		if found.of == nil && (!told && found.count >= d.manyMasks || d.countsMasksByPort(found)) {
			if found.of, err = d.masksOfPorts(ctx); err != nil {
				d.log.WithError(err).Debug("whose masks there are is not known")
			}
		}
		d.keepSlowed(ctx, found)
		switch {
		case !told && found.count >= d.manyMasks:
			told = true
			d.log.Warn(d.describeMasks(found))
		case told && found.count <= d.manyMasks/2:
			told = false
			d.log.Infof("the datapath looks packets up by %d masks again", found.count)
		}
	}
}

// masks is the number of masks by which a packet is looked up: in the kernel all masks, in ovs-vswitchd those of
// the port with the most.
type masks struct {
	count int
	of    map[string]int // how many are for packets of a port, by its link; nil: unknown
}

var kernelMasks = regexp.MustCompile(`masks:.* total:(\d+)`)

// countMasks returns the masks of the datapath: the kernel's own count, or those in the flows of ovs-vswitchd.
func (d *Driver) countMasks(ctx context.Context) (masks, error) {
	if d.datapathType() == DatapathNetdev {
		of, err := d.masksOfPorts(ctx)
		_, count := most(of)
		return masks{count, of}, err
	}
	text, err := d.config.vswitchd().Call(ctx, "dpctl/show", d.datapath())
	if err != nil {
		return masks{}, err
	}
	found := kernelMasks.FindStringSubmatch(text)
	if found == nil {
		return masks{}, errors.New("dpctl/show of ovs-vswitchd does not tell")
	}
	count, err := strconv.Atoi(found[1])
	return masks{count: count}, err
}

// describeMasks returns a warning about many masks, with the endpoint that has most of them.
func (d *Driver) describeMasks(found masks) string {
	text := fmt.Sprintf("the datapath looks packets up by %d masks, one after the other, which makes all pods of the node slower", found.count)
	link, count := most(found.of)
	if row, ok := d.db.linkNamed.Row(link); ok && row.endpoint() != "" {
		return fmt.Sprintf("%s: %d of them are for what endpoint %s (port %s) sends: it may send headers of all kinds for this", text, count, row.endpoint(), link)
	}
	return text
}

// masksOfPorts counts the masks of each port's packets.
func (d *Driver) masksOfPorts(ctx context.Context) (map[string]int, error) {
	flows, err := d.datapathFlows(ctx)
	if err != nil {
		return nil, err
	}
	if flows > manyFlows {
		return nil, fmt.Errorf("the datapath has %d flows, which are too many to be looked through", flows)
	}
	dump, err := d.config.vswitchd().Call(ctx, "dpctl/dump-flows", "--names", d.datapath())
	if err != nil {
		return nil, err
	}
	return masksByPort(dump), nil
}

var flowCount = regexp.MustCompile(`flows\s*: \(current (\d+)\)`)

// datapathFlows returns how many flows datapaths have.
func (d *Driver) datapathFlows(ctx context.Context) (all int, err error) {
	text, err := d.config.vswitchd().Call(ctx, "upcall/show")
	if err != nil {
		return 0, err
	}
	for _, f := range flowCount.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}

var (
	inPort = regexp.MustCompile(`in_port\(([^)]*)\)`)
	// value is that of a field, before its mask if it has one.
	value = regexp.MustCompile(`([=(])[^=(),/]+`)
)

// masksByPort counts in a dump of flows the masks of each port's packets.
func masksByPort(dump string) map[string]int {
	masks := map[string]map[string]bool{} // by port
	for line := range strings.Lines(dump) {
		match, _, _ := strings.Cut(line, ", packets:")
		in := inPort.FindStringSubmatch(match)
		if in == nil {
			continue
		}
		if masks[in[1]] == nil {
			masks[in[1]] = map[string]bool{}
		}
		masks[in[1]][value.ReplaceAllString(match, "$1")] = true
	}
	counts := make(map[string]int, len(masks))
	for port, its := range masks {
		counts[port] = len(its)
	}
	return counts
}

// most finds the port whose packets have most masks; none: "".
func most(of map[string]int) (port string, count int) {
	if len(of) == 0 {
		return "", 0
	}
	port = slices.MaxFunc(slices.Sorted(maps.Keys(of)), func(a, b string) int { return cmp.Compare(of[a], of[b]) })
	return port, of[port]
}

var masksDesc = prometheus.NewDesc("netplugin_datapath_masks",
	"By how many masks the datapath looks packets up, in ovs-vswitchd those of the port that has most, as of the last audit; none: unknown. Hundreds of them slow the node down.", []string{"bridge"}, nil)

// DatapathMetrics are the tables of the datapaths of bridges as numbers of a node.
type DatapathMetrics []*Driver

// Describe implements prometheus.Collector.
func (DatapathMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- masksDesc
	to <- slowedDesc
	zones.Describe(to)
}

// Collect implements prometheus.Collector. The first bridge of a datapath reports its masks.
func (m DatapathMetrics) Collect(to chan<- prometheus.Metric) {
	told := map[string]bool{}
	for _, d := range m {
		if count, datapath := d.masks.Load(), d.datapath(); count != unknownMasks && !told[datapath] {
			told[datapath] = true
			to <- prometheus.MustNewConstMetric(masksDesc, prometheus.GaugeValue, float64(count), d.config.Bridge)
		}
		to <- prometheus.MustNewConstMetric(slowedDesc, prometheus.GaugeValue, float64(d.slowedPorts()), d.config.Bridge)
		d.zones.Collect(to)
	}
}
