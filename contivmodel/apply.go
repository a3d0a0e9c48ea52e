package contivmodel

// Kinds of operations of an apply.
const (
	OpApply  = "apply"  // create, update, or leave an object as it is if nothing differs
	OpCreate = "create" // create, or leave an identical object as it is
	OpDelete = "delete"
)

// Applied is the answer to an apply.
type Applied struct {
	DryRun   bool              `json:"dryRun"`
	Revision int64             `json:"revision"`
	Results  []OperationResult `json:"results"` // in the order of the operations
}

// OperationResult is the result of one operation of an apply.
type OperationResult struct {
	Op     string `json:"op"`
	Type   string `json:"type"`
	Key    string `json:"key"`
	Result string `json:"result"` // created, configured, unchanged, deleted
}
