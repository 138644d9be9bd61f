// Package settings publishes the Settings of each namespace as one ConfigMap.
//
// Many inputs make one output, and both can change at any time: a user edits
// a Setting, and another edits the ConfigMap. A controller that watches only
// its inputs never learns of the second.
//
//		Settings ───▶ key: the namespace's ConfigMap ──▶ reconcile: render all Settings
//		ConfigMap ──▶                                    │  ├──▶ ConfigMap as it must be
//		   ▲                                             │  └──▶ conditions of the Settings
//		   └─────────────── what we write, we watch ◀────┘
//
//	  - The ConfigMap is a function of the Settings: nothing in it is older than
//	    they are, and nothing that another client wrote stays.
//	  - The last Setting takes the ConfigMap with it, when the server confirms that
//	    there is none.
//	  - A ConfigMap of that name without our label is never written to; the
//	    Settings say so.
package settings
