package gate

// name interns a name, because thousands of records have it.
func (x *index) name(text string) string {
	if kept, ok := x.names[text]; ok {
		return kept
	}
	if len(x.names) >= x.sweepAt {
		x.sweepNames()
	}
	x.names[text] = text
	return text
}

// fewNames is the number of names below which unused ones are not dropped.
const fewNames = 1024

// sweepNames drops unused names, such as those of removed nodes. It iterates over all records, so it runs only
// when there are twice as many names as were in use the last time.
func (x *index) sweepNames() {
	used := make(map[string]string)
	for _, r := range x.records {
		used[r.host], used[r.tenant] = r.host, r.tenant
	}
	for _, n := range x.networks {
		used[n.tenant] = n.tenant
	}
	for _, tenant := range x.entered {
		used[tenant] = tenant
	}
	x.names, x.sweepAt = used, max(fewNames, 2*len(used))
}
