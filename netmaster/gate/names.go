package gate

// name keeps one copy of a name, which thousands of records have.
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

// fewNames are so many that they are not looked through.
const fewNames = 1024

// sweepNames forgets the names that nothing has any more, as those of nodes that are gone. It walks all
// records, so it is done only when there are twice as many names as were in use the last time.
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
