package ovsd

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// releaseFile contains the release of the running kernel.
const releaseFile = "/proc/sys/kernel/osrelease"

// comparesSizes reports whether the datapath of our bridge can, and may, compare the sizes of packets.
// Otherwise ovs-vswitchd would do that, for each packet.
func (d *Driver) comparesSizes(ctx context.Context) (bool, error) {
	if d.config.NoSizeChecks {
		return false, nil
	}
	if d.datapathType() == DatapathSystem {
		release, err := os.ReadFile(releaseFile)
		if err != nil || !comparesSegments(string(release)) {
			return false, err
		}
	}
	features, err := d.config.vswitchd().Call(ctx, "dpif/show-dp-features", d.config.Bridge)
	return strings.Contains(features, "Check pkt length action: Yes"), err
}

// comparesSegments reports whether a release of the kernel compares the size of segments: earlier ones treat what
// TCP leaves to the link to segment (GSO) as one packet, which is always too big. ovs-vswitchd does not check that.
func comparesSegments(release string) bool {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 5 || major == 5 && minor >= 8
}
