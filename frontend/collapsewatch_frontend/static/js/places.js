/** Where series belong, as panels name it. Pure. */

/** Stands for the scored scope that a person looks at (`first_turn`, `turn/0`, …). */
export const SCORED = "scored";
export const BATCH = "batch";
export const TRAINER = "trainer";
