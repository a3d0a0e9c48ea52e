package ovsdb

import "context"

// Configure is Transact for rows that ovs-vswitchd applies. It has applied them when cur_cfg in the row of
// Open_vSwitch is at least the returned config. The results are those of ops.
func (c *Client) Configure(ctx context.Context, ops ...Operation) (results []Result, config int64, err error) {
	const root = "Open_vSwitch"
	results, err = c.Transact(ctx, append(ops,
		Mutate(root, All(), Mutation{Column: "next_cfg", Mutator: "+=", Value: 1}),
		Select(root, All(), "next_cfg"))...)
	if err != nil {
		return nil, 0, err
	}
	var row struct {
		NextCfg int64 `ovsdb:"next_cfg"`
	}
	if rows := results[len(ops)+1].Rows; len(rows) > 0 { // none: the database is not initialised
		err = decodeRow(rows[0], &row)
	}
	return results[:len(ops)], row.NextCfg, err
}
