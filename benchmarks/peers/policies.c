/* The six placement policies of the FGD experiments (Weng et al., USENIX ATC 2023), from their published recipe.
 *
 * One call runs one arrival list on one cluster: pods only arrive, and a pod that fits nowhere is dropped.  A policy gives
 * every node where a pod fits an integer score; the highest wins, and ties go to the first node (the nodes come in the
 * order of their names) or to one of them at random.  FGD also chooses the card; all others take the fullest card that a
 * fraction fits, Random any.  Whole cards are the first idle ones.
 *
 * Speed: the scores of one shape over all nodes are kept in a row.  A log of changed nodes tells each row, when it is
 * used next, which entries to score again; all others stand. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CARDS = 8, WHOLE = 1000, MAX_CPU = 128000, MAX_MILLI = CARDS * WHOLE, CLASSES = 6, NEVER = -1 };
enum policy { RANDOM, DOT_PROD, GPU_CLUSTERING, GPU_PACKING, BEST_FIT, FGD };
enum tie { FIRST_NODE, ANY_NODE };

/* What a pod asks for; `milli` is per card, `models` a bit set of the card models that it may use. */
struct shape {
    int32_t cpu, memory, cards, milli;
    uint64_t models;
};

/* A shape that is typical of the workload, with the number of pods like it. */
struct typical {
    int32_t cpu, cards, milli, count;
    uint64_t models;
};

struct node {
    int32_t cpu, memory, cards, model;
    int32_t left[CARDS];       /* milli-cards left on each card */
    int32_t placed[CLASSES];   /* pods by class: fraction, 1, 2, 4, 8 cards, other */
    int64_t fragments;         /* FGD: F of the node, times the number of typical pods */
};

struct input {
    int32_t policy, tie;
    uint64_t seed;
    int32_t nodes, shapes, typicals, arrivals;
    const struct node *node;
    const struct shape *shape;
    const struct typical *typical;
    const int32_t *arrival; /* indexes of shapes */
};

struct run {
    const struct input *in;
    struct node *node;
    int16_t *score;   /* [shape][node] */
    int8_t *card;     /* [shape][node], FGD: the card to take */
    int32_t *seen;    /* [shape]: how much of the log its row has followed; -1: nothing scored yet */
    int32_t *log;     /* changed nodes, one for each pod placed */
    int32_t *last;    /* [node]: where the log names it last */
    int32_t logged;
    uint64_t draws;
    int64_t typical_pods;
};

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t draw(uint64_t *state) {
    uint64_t mixed = (*state += 0x9E3779B97F4A7C15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
}

static int32_t left_in_all(const struct node *node) {
    int32_t sum = 0;
    for (int i = 0; i < node->cards; i++) sum += node->left[i];
    return sum;
}

static int cards_with(const struct node *node, int32_t milli) {
    int count = 0;
    for (int i = 0; i < node->cards; i++) count += node->left[i] >= milli;
    return count;
}

static int fits(const struct node *node, const struct shape *shape) {
    if (node->cpu < shape->cpu || node->memory < shape->memory) return 0;
    if (!shape->cards) return 1;
    return (shape->models >> node->model & 1) && cards_with(node, shape->milli) >= shape->cards;
}

static int class_of(const struct shape *shape) {
    if (shape->milli < WHOLE) return 0;
    switch (shape->cards) {
    case 1: return 1;
    case 2: return 2;
    case 4: return 3;
    case 8: return 4;
    default: return 5;
    }
}

/* The fullest card that a fraction fits, the first of equals. */
static int tightest(const struct node *node, int32_t milli) {
    int best = -1;
    for (int i = 0; i < node->cards; i++)
        if (node->left[i] >= milli && (best < 0 || node->left[i] < node->left[best])) best = i;
    return best;
}

/* 100 × (1 - mean of the products of what is left and what is asked, each over the largest node). */
static int score_dot_prod(const struct node *node, const struct shape *shape) {
    double cpu = (double)node->cpu / MAX_CPU * ((double)shape->cpu / MAX_CPU);
    double gpu = (double)left_in_all(node) / MAX_MILLI * ((double)(shape->cards * shape->milli) / MAX_MILLI);
    return (int)(100.0 * (1.0 - (cpu + gpu) / 2));
}

/* Nodes that hold pods of the same class: only such, also such, none at all, only others; fuller nodes first. */
static int score_clustering(const struct node *node, const struct shape *shape) {
    if (!shape->cards) return 0;
    int classes = 0;
    for (int i = 0; i < CLASSES; i++) classes += node->placed[i] > 0;
    int full = 25 * (MAX_MILLI - left_in_all(node)) / MAX_MILLI;
    if (node->placed[class_of(shape)]) return full + (classes == 1 ? 75 : 50);
    return full + (classes ? 0 : 25);
}

/* Cards in use (100 to 50), else idle cards of a node in use (50 to 33), else an idle node (33 and less). */
static int score_packing(const struct node *node, const struct shape *shape) {
    if (!shape->cards) return 0;
    int idle = cards_with(node, WHOLE);
    if (idle == node->cards) return 33 - idle > idle ? 33 - idle : idle;
    if (shape->milli == WHOLE) return 50 - shape->cards > 33 ? 50 - shape->cards : 33;
    int32_t left = node->left[tightest(node, shape->milli)];
    if (left == WHOLE) return 50 - 1;
    int score = 100 - left * 100 / WHOLE / 10;
    return score > 50 ? score : 50;
}

/* What stays free, over the largest node, half CPU and half cards; the less the better. */
static int score_best_fit(const struct node *node, const struct shape *shape) {
    double cpu = (double)(node->cpu - shape->cpu) / MAX_CPU;
    double gpu = (double)(left_in_all(node) - shape->cards * shape->milli) / MAX_MILLI;
    return (int)((1.0 - (0.5 * cpu + 0.5 * gpu)) * 100.0);
}

/* F of a node: milli-cards that the typical pods could not use, summed over those pods.  All idle cards if a pod cannot
 * run here or wants no card, else the remainders smaller than it asks of one card. */
static int64_t fragments(const struct run *run, const struct node *node) {
    const struct typical *typical = run->in->typical;
    int32_t all = left_in_all(node);
    int64_t sum = 0;
    if (!all) return 0;
    for (int i = 0; i < run->in->typicals; i++) {
        const struct typical *pod = typical + i;
        int32_t lost = all;
        if (pod->milli && node->cpu >= pod->cpu && (pod->models >> node->model & 1)) {
            int32_t small = 0;
            int cards = 0;
            for (int k = 0; k < node->cards; k++) {
                int enough = node->left[k] >= pod->milli;
                cards += enough;
                small += enough ? 0 : node->left[k];
            }
            if (cards >= pod->cards) lost = small;
        }
        sum += (int64_t)pod->count * lost;
    }
    return sum;
}

static int score_change(const struct run *run, const struct node *before, const struct node *after) {
    double change = (double)(before->fragments - fragments(run, after)) / (double)run->typical_pods;
    return (int)(100.0 / (1.0 + exp(-change / 1000.0)));
}

/* `card` is the one for a fraction, -1 for whole cards and for none. */
static void take(struct node *node, const struct shape *shape, int card) {
    node->cpu -= shape->cpu;
    node->memory -= shape->memory;
    if (card >= 0) {
        node->left[card] -= shape->milli;
        return;
    }
    for (int i = 0, need = shape->cards; i < node->cards && need; i++)
        if (node->left[i] == WHOLE) node->left[i] = 0, need--;
}

static int score_fgd(const struct run *run, const struct node *node, const struct shape *shape, int8_t *card) {
    struct node after = *node;
    *card = -1;
    if (!shape->cards || shape->milli == WHOLE) {
        take(&after, shape, -1);
        return score_change(run, node, &after);
    }
    int best = NEVER;
    after.cpu -= shape->cpu;
    for (int i = 0; i < node->cards; i++) {
        int twin = 0; /* an earlier card with as much left gives the same score, and the first one counts */
        for (int k = 0; k < i; k++) twin |= node->left[k] == node->left[i];
        if (twin || node->left[i] < shape->milli) continue;
        after.left[i] -= shape->milli;
        int score = score_change(run, node, &after);
        after.left[i] = node->left[i];
        if (score > best) best = score, *card = (int8_t)i;
    }
    return best;
}

static int score_of(const struct run *run, const struct node *node, const struct shape *shape, int8_t *card) {
    if (!fits(node, shape)) return NEVER;
    switch (run->in->policy) {
    case DOT_PROD: return score_dot_prod(node, shape);
    case GPU_CLUSTERING: return score_clustering(node, shape);
    case GPU_PACKING: return score_packing(node, shape);
    case BEST_FIT: return score_best_fit(node, shape);
    case FGD: return score_fgd(run, node, shape, card);
    default: return 0;
    }
}

/* Bring the row of one shape up to date. */
static void refresh(struct run *run, int which) {
    const struct shape *shape = run->in->shape + which;
    int32_t nodes = run->in->nodes;
    int16_t *score = run->score + (size_t)which * nodes;
    int8_t *card = run->card + (size_t)which * nodes;
    if (run->seen[which] < 0) {
        for (int i = 0; i < nodes; i++) score[i] = (int16_t)score_of(run, run->node + i, shape, card + i);
    } else {
        for (int32_t at = run->seen[which]; at < run->logged; at++) {
            int i = run->log[at];
            if (run->last[i] != at) continue; /* changed again later: once is enough */
            score[i] = (int16_t)score_of(run, run->node + i, shape, card + i);
        }
    }
    run->seen[which] = run->logged;
}

static int choose(struct run *run, const int16_t *score) {
    int32_t nodes = run->in->nodes;
    int16_t best = NEVER;
    for (int i = 0; i < nodes; i++) best = score[i] > best ? score[i] : best;
    if (best == NEVER) return -1;
    int32_t skip = 0;
    if (run->in->tie == ANY_NODE || run->in->policy == RANDOM) {
        int32_t ties = 0;
        for (int i = 0; i < nodes; i++) ties += score[i] == best;
        skip = (int32_t)(draw(&run->draws) % (uint64_t)ties);
    }
    for (int i = 0; i < nodes; i++)
        if (score[i] == best && skip-- == 0) return i;
    return -1;
}

static int card_of(struct run *run, const struct node *node, const struct shape *shape, int chosen) {
    if (!shape->cards || shape->milli == WHOLE) return -1;
    if (run->in->policy == FGD) return chosen;
    if (run->in->policy != RANDOM) return tightest(node, shape->milli);
    int skip = (int)(draw(&run->draws) % (uint64_t)cards_with(node, shape->milli));
    for (int i = 0; i < node->cards; i++)
        if (node->left[i] >= shape->milli && skip-- == 0) return i;
    return -1;
}

static void place(struct run *run, const struct shape *shape, int at, int card) {
    struct node *node = run->node + at;
    take(node, shape, card);
    if (shape->cards) node->placed[class_of(shape)]++;
    if (run->in->policy == FGD) node->fragments = fragments(run, node);
    run->last[at] = run->logged;
    run->log[run->logged++] = at;
}

/* Run an arrival list.  `out_node` gets the node of each pod, or -1; `out_card` the card of a fraction, else -1.
 * Returns 0, or -1 if there is no memory. */
int peers_run(const struct input *in, int32_t *out_node, int8_t *out_card) {
    size_t cells = (size_t)in->nodes * (size_t)in->shapes;
    struct run run = {.in = in, .draws = in->seed};
    run.node = malloc(sizeof *run.node * (size_t)in->nodes);
    run.score = malloc(sizeof *run.score * cells);
    run.card = malloc(sizeof *run.card * cells);
    run.seen = malloc(sizeof *run.seen * (size_t)in->shapes);
    run.log = malloc(sizeof *run.log * ((size_t)in->arrivals + 1));
    run.last = malloc(sizeof *run.last * (size_t)in->nodes);
    int enough = run.node && run.score && run.card && run.seen && run.log && run.last;
    if (enough) {
        memcpy(run.node, in->node, sizeof *run.node * (size_t)in->nodes);
        memset(run.seen, -1, sizeof *run.seen * (size_t)in->shapes);
        for (int i = 0; i < in->typicals; i++) run.typical_pods += in->typical[i].count;
        for (int i = 0; i < in->nodes; i++) run.node[i].fragments = fragments(&run, run.node + i);
        for (int n = 0; n < in->arrivals; n++) {
            int which = in->arrival[n];
            const struct shape *shape = in->shape + which;
            refresh(&run, which);
            int at = choose(&run, run.score + (size_t)which * in->nodes);
            out_node[n] = at;
            out_card[n] = -1;
            if (at < 0) continue;
            int card = card_of(&run, run.node + at, shape, run.card[(size_t)which * in->nodes + at]);
            out_card[n] = (int8_t)card;
            place(&run, shape, at, card);
        }
    }
    free(run.node), free(run.score), free(run.card), free(run.seen), free(run.log), free(run.last);
    return enough ? 0 : -1;
}
