package contivmodel

// What an operation of an apply does.
const (
	OpApply  = "apply"  // create, update, or leave alone what is as wanted
	OpCreate = "create" // create, or leave an identical object alone
	OpDelete = "delete"
)

// Applied is the answer to an apply.
type Applied struct {
	DryRun   bool              `json:"dryRun"`
	Revision int64             `json:"revision"`
	Results  []OperationResult `json:"results"` // in the order of the operations
}

// OperationResult is one operation of an apply, and what has become of it.
type OperationResult struct {
	Op     string `json:"op"`
	Type   string `json:"type"`
	Key    string `json:"key"`
	Result string `json:"result"` // created, configured, unchanged, deleted
}
