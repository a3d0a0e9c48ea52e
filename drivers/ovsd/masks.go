package ovsd

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The datapath keeps what it was told about packets by the fields and bits that mattered, their mask, and a packet that
// it does not find at once is looked up by one mask after the other. A pod that sends headers of all kinds makes many
// (tuple space explosion, CVE-2019-25076), and all packets of the node are slower then. Open vSwitch has no cure, and they go
// by themselves when nobody sends such packets any more. So they are counted at each audit, and the log tells whose they are.

const (
	manyMasks = 100 // a node without such pods has 10, rules of all features at once make some dozens
	// manyFlows are more than are looked through for whose they are: ovs-vswitchd prints them all at once.
	manyFlows = 50_000
)

// watchMasks counts masks until ctx is done.
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
		masks, err := d.countMasks(ctx)
		if err != nil {
			d.log.WithError(err).Debug("masks of the datapath are not counted")
			continue
		}
		d.masks.Store(int64(masks))
		if many := masks >= d.manyMasks; many != told {
			if told = many; many {
				d.log.Warn(d.describeMasks(ctx, masks))
			} else {
				d.log.Infof("the datapath looks packets up by %d masks again", masks)
			}
		}
	}
}

var (
	kernelMasks    = regexp.MustCompile(`masks:.* total:(\d+)`)
	userspaceMasks = regexp.MustCompile(`(?i)use count: (\d+)`)
)

// countMasks asks the datapath how many masks it has: the kernel tells, and the userspace datapath how many of its
// tables of flows, which have one each, each of its ways to search them is used for.
func (d *Driver) countMasks(ctx context.Context) (int, error) {
	command, args, number := "dpctl/show", []string{d.datapath()}, kernelMasks
	if d.datapathType() == DatapathNetdev {
		command, args, number = "dpif-netdev/subtable-lookup-info-get", nil, userspaceMasks
	}
	text, err := d.config.appctl(ctx, command, args...)
	if err != nil {
		return 0, err
	}
	found := number.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		return 0, fmt.Errorf("%s of ovs-vswitchd does not tell", command)
	}
	all := 0
	for _, f := range found {
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return 0, fmt.Errorf("%s of ovs-vswitchd: %w", command, err)
		}
		all += n
	}
	return all, nil
}

// describeMasks says what many masks mean, and which endpoint has most of them.
func (d *Driver) describeMasks(ctx context.Context, masks int) string {
	text := fmt.Sprintf("the datapath looks packets up by %d masks, one after the other, which makes all pods of the node slower", masks)
	if flows, err := d.datapathFlows(ctx); err != nil || flows > manyFlows {
		return text
	}
	dump, err := d.config.appctl(ctx, "dpctl/dump-flows", "--names", d.datapath())
	if err != nil {
		return text
	}
	link, most := mostMasks(dump)
	if row, ok := d.db.linkNamed.Row(link); ok && row.endpoint() != "" {
		return fmt.Sprintf("%s: %d of them are for what endpoint %s (port %s) sends: it may send headers of all kinds for this", text, most, row.endpoint(), link)
	}
	return text
}

var flowCount = regexp.MustCompile(`flows\s*: \(current (\d+)\)`)

// datapathFlows is how many flows datapaths have.
func (d *Driver) datapathFlows(ctx context.Context) (all int, err error) {
	text, err := d.config.appctl(ctx, "upcall/show")
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

// mostMasks finds in a dump of flows the port whose packets have most masks.
func mostMasks(dump string) (port string, count int) {
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
	if len(masks) == 0 {
		return "", 0
	}
	port = slices.MaxFunc(slices.Sorted(maps.Keys(masks)), func(a, b string) int { return cmp.Compare(len(masks[a]), len(masks[b])) })
	return port, len(masks[port])
}

var masksDesc = prometheus.NewDesc("contiv_datapath_masks",
	"By how many masks the datapath looks packets up, as of the last audit; hundreds of them slow all pods of the node down.", []string{"bridge"}, nil)

// DatapathMetrics are the tables of the datapaths of bridges as numbers of a node.
type DatapathMetrics []*Driver

// Describe implements prometheus.Collector.
func (DatapathMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{masksDesc, connectionsDesc, connectionsLimitDesc} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (m DatapathMetrics) Collect(to chan<- prometheus.Metric) {
	for _, d := range m {
		to <- prometheus.MustNewConstMetric(masksDesc, prometheus.GaugeValue, float64(d.masks.Load()), d.config.Bridge)
		d.collectShares(to)
	}
}
