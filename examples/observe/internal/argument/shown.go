package argument

import "text/template/parse"

// shownAs is the name of the function through which each value is printed.
const shownAs = "_shown"

// shown returns the empty string for a value that is missing or null, and other
// values unchanged.
func shown(value any) any {
	if value == nil {
		return ""
	}
	return value
}

// showAll adds a call of shown to every value that is printed below node.
func showAll(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			showAll(child)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) == 0 {
			call := &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos}
			call.Args = []parse.Node{parse.NewIdentifier(shownAs).SetPos(n.Pos)}
			n.Pipe.Cmds = append(n.Pipe.Cmds, call)
		}
	case *parse.IfNode:
		showBoth(&n.BranchNode)
	case *parse.RangeNode:
		showBoth(&n.BranchNode)
	case *parse.WithNode:
		showBoth(&n.BranchNode)
	}
}

func showBoth(branch *parse.BranchNode) {
	showAll(branch.List)
	showAll(branch.ElseList)
}
